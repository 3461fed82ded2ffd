"""An app's certificates: what is in them, when they are due, whom they convince. Handshakes are real, in memory."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fleet.kit.credentials.certificates import (
    Authority,
    Leaf,
    Pair,
    client_context,
    lifetime_of,
    overlap,
    trusts,
)

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)
SERVER = Leaf("registry", dns=("registry-0.registry-peers.ns.svc", "localhost"), ips=("127.0.0.1", "::1"), server=True)


def test_an_authority_is_the_same_after_it_was_kept_as_text() -> None:
    authority = Authority.new("registry", now=NOW)
    again = Authority.read(authority.pem, authority.key_pem)
    pair = again.issue(SERVER, now=NOW)
    assert authority.signed(pair.cert_pem)
    assert authority.expires == again.expires == NOW + timedelta(days=3650)


def test_an_authority_is_found_in_a_bundle_by_its_key() -> None:
    old, new = Authority.new("registry"), Authority.new("registry")
    assert Authority.read(overlap(old.pem, new.pem), new.key_pem).pem == new.pem
    with pytest.raises(ValueError, match="no certificate belongs"):
        Authority.read(old.pem, new.key_pem)


def test_a_leaf_has_the_names_and_uses_that_were_asked_for() -> None:
    pair = Authority.new("registry").issue(replace(SERVER, client=True))
    certificate = x509.load_pem_x509_certificate(pair.cert_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == list(SERVER.dns)
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == list(SERVER.ips)
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {use._name for use in uses} == {"serverAuth", "clientAuth"}


def test_a_client_has_no_other_names() -> None:
    pair = Authority.new("registry").issue(Leaf("user", client=True))
    certificate = x509.load_pem_x509_certificate(pair.cert_pem)
    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_a_common_name_longer_than_x509_allows_is_cut_and_stays_good() -> None:
    authority = Authority.new("r" * 80, now=NOW)
    leaf = replace(SERVER, common_name="n" * 100)
    assert not authority.due(authority.issue(leaf, now=NOW), leaf, NOW)


def test_a_leaf_is_due_after_two_thirds_of_its_life_and_not_before() -> None:
    authority = Authority.new("registry", now=NOW)
    leaf = replace(SERVER, lifetime=timedelta(days=90))
    pair = authority.issue(leaf, now=NOW)
    assert lifetime_of(pair.cert_pem)[1] == NOW + timedelta(days=90)
    assert not authority.due(pair, leaf, NOW)
    assert not authority.due(pair, leaf, NOW + timedelta(days=59, hours=23))
    assert authority.why_renew(pair, leaf, NOW + timedelta(days=60)) == "it expires at 2031-07-30 12:00 UTC"


@pytest.mark.parametrize(
    "wanted",
    [
        replace(SERVER, dns=(*SERVER.dns, "registry-3.registry-peers.ns.svc")),
        replace(SERVER, ips=("127.0.0.1",)),
        replace(SERVER, common_name="other"),
        replace(SERVER, client=True),
    ],
)
def test_a_leaf_is_due_when_something_else_is_wanted(wanted: Leaf) -> None:
    authority = Authority.new("registry", now=NOW)
    pair = authority.issue(SERVER, now=NOW)
    assert authority.why_renew(pair, SERVER, NOW) is None
    assert authority.why_renew(pair, wanted, NOW) == "its names or uses are not those that are wanted"


def test_the_order_of_names_and_another_lifetime_make_nothing_due() -> None:
    authority = Authority.new("registry", now=NOW)
    pair = authority.issue(SERVER, now=NOW)
    same = replace(SERVER, dns=SERVER.dns[::-1], lifetime=timedelta(days=30))
    assert not authority.due(pair, same, NOW)


def test_a_leaf_is_due_when_another_authority_signed_it_or_it_is_damaged() -> None:
    authority, other = Authority.new("registry", now=NOW), Authority.new("registry", now=NOW)
    pair = authority.issue(SERVER, now=NOW)
    assert other.why_renew(pair, SERVER, NOW) == "another authority signed it"
    assert authority.why_renew(Pair(b"nonsense", pair.key_pem), SERVER, NOW) == "it cannot be read"
    assert authority.why_renew(Pair(b"", b""), SERVER, NOW) == "it cannot be read"
    for key in (other.key_pem, b"nonsense", b""):
        damaged = Pair(pair.cert_pem, key)
        assert authority.why_renew(damaged, SERVER, NOW) == "its key is not the one in the certificate"


def test_a_leaf_never_outlives_its_authority_which_is_replaced_in_time() -> None:
    authority = Authority.new("registry", now=NOW, lifetime=timedelta(days=300))
    assert lifetime_of(authority.issue(SERVER, now=NOW).cert_pem)[1] == authority.expires
    assert not authority.aged(NOW + timedelta(days=199))
    assert authority.aged(NOW + timedelta(days=200))


def test_a_bundle_has_each_certificate_once_and_none_that_expired() -> None:
    old, new = Authority.new("registry", now=NOW, lifetime=timedelta(days=1)), Authority.new("registry", now=NOW)
    both = overlap(old.pem, new.pem, now=NOW)
    assert both == old.pem + new.pem == overlap(both, old.pem, b"", now=NOW)
    assert trusts(both, old) and trusts(both, new) and not trusts(new.pem, old)
    assert overlap(both, now=NOW + timedelta(days=2)) == new.pem


def test_a_handshake_succeeds_with_the_right_authority_and_name_only(tmp_path: Path) -> None:
    authority, stranger = Authority.new("registry"), Authority.new("registry")
    server = _server(authority, authority.pem, tmp_path)
    name = SERVER.dns[0]
    assert _handshake(server, client_context(authority), name) == "fleet-operator"
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _handshake(server, client_context(authority), "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(server, client_context(stranger), name)
    with pytest.raises(ssl.SSLError):  # the server does not know the client's authority
        _handshake(server, client_context(stranger, trusted=authority.pem), name)


def test_old_and_new_authority_are_both_believed_while_they_overlap(tmp_path: Path) -> None:
    old, new = Authority.new("registry"), Authority.new("registry")
    both = overlap(old.pem, new.pem)
    name = SERVER.dns[0]
    for server_of in (old, new):
        for client_of in (old, new):
            _handshake(_server(server_of, both, tmp_path), client_context(client_of, trusted=both), name)
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(_server(old, both, tmp_path), client_context(new), name)


def test_strict_checks_of_newer_pythons_find_nothing_wrong(tmp_path: Path) -> None:
    authority = Authority.new("registry")
    client = client_context(authority)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = _server(authority, authority.pem, tmp_path)
    server.verify_flags |= ssl.VERIFY_X509_STRICT
    _handshake(server, client, SERVER.dns[0])


def _server(authority: Authority, trusted: bytes, directory: Path) -> ssl.SSLContext:
    pair = authority.issue(SERVER)
    file = directory / "server.pem"
    file.write_bytes(pair.cert_pem + pair.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=trusted.decode())
    context.load_cert_chain(file)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _handshake(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, name: str) -> str:
    """Both sides of a handshake with buffers between them; the name that the client showed."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_tls.wrap_bio(to_client, to_server, server_hostname=name)
    server = server_tls.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for _ in range(10):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not waiting
    shown = server.getpeercert(binary_form=True)
    assert shown
    return str(x509.load_der_x509_certificate(shown).subject.rdns[0].rfc4514_string().removeprefix("CN="))
