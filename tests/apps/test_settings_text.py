"""Settings of tenants are read within bounds: what unfolds, nests or says another thing than it seems is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fleet import TLS
from fleet.apps import Etcd
from fleet.apps.etcd import EtcdConfig
from fleet.apps.settings_text import SettingsError, read_settings, read_value
from fleet.errors import ConfigurationError

LAUGHS = "[&a [x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c]]"


@pytest.mark.parametrize(
    ("text", "value"),
    [("5000", 5000), ("true", True), ("2s", "2s"), ("[a, b]", ["a", "b"]), ("'{\"a\": 1}'", '{"a": 1}'), ("", None)],
)
def test_a_setting_is_a_word_a_number_or_a_list_of_them(text: str, value: Any) -> None:
    assert read_value(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "an anchor or an alias"),
        ("&a x", "an anchor or an alias"),
        ("*a", "an anchor or an alias"),
        ("[[a]]", "nested too deep"),
        ("[" * 1024, "nested too deep"),
        ("{" * 1024, "nested too deep"),
        ("[" + "a," * 500 + "]", "more than 256 values"),
        ("{cert-file: ''}", "a mapping"),
        ("!!python/name:os.system ''", "a tag"),
        ("!!binary aGk=", "a tag"),
        ("2001-01-01", "takes for a date"),
        ("[2001-01-01 00:00:00]", "takes for a datetime"),
        ("a\n---\nb", "several documents"),
        ("[a", "is not YAML"),
        ("'a", "is not YAML"),
        ("\x00", "is not YAML"),
        ("9" * 5000, "is not YAML"),
    ],
)
def test_what_unfolds_or_is_no_setting_is_refused(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read_value(text)


@pytest.mark.parametrize(
    "text",
    [
        f"a: {LAUGHS}",
        "a: " + "[" * 60_000,
        "a: [" + "x," * 30_000 + "]",
        "a: " + "x" * 70_000,
        "? " * 30_000,
        "1: a",
        "[a]",
    ],
)
def test_a_file_of_settings_is_refused_within_bounds_too(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(SettingsError):
        read_settings(text)
    assert time.process_time() - begun < 5, "it was built before it was counted"


def test_an_option_that_unfolds_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigurationError, match="the value of 'log-outputs' has an anchor or an alias") as refused:
        EtcdConfig(options={"log-outputs": LAUGHS})
    assert refused.value.source is not None and refused.value.source.file.endswith("test_settings_text.py")


@pytest.mark.parametrize("life", ["1s", "3m", "3651d", "99999999w", "9999999999999999999999w"])
def test_a_lifetime_of_certificates_that_makes_no_sense_is_refused_where_it_is_written(life: str) -> None:
    with pytest.raises(ConfigurationError, match="must be between four minutes and ten years") as refused:
        TLS(lifetime=life)
    assert refused.value.field == "lifetime" and "test_settings_text.py:" in str(refused.value)


@pytest.mark.parametrize("life", ["4m", "90d", "3650d", "520w", "1h30m"])
def test_a_lifetime_of_certificates_that_makes_sense_is_taken(life: str) -> None:
    assert TLS(lifetime=life).lifetime == life


def test_a_lifetime_that_a_cluster_has_already_stops_nobody_from_reading_the_app() -> None:
    manifest = {"apiVersion": "fleet.dev/v1alpha1", "kind": "Etcd", "metadata": {"name": "db", "namespace": "shop"}}
    assert Etcd.from_manifest({**manifest, "spec": {"version": "3.5", "tls": {"lifetime": "1s"}}}).tls.lifetime == "1s"


@pytest.mark.parametrize(
    "flag",
    [
        "client-transport-security",
        "peer-transport-security",
        "clienttlsinfo",
        "clientautotls",
        "client-crl-file",
        "experimental-peer-skip-client-san-verification",
        "peer-cert-allowed-hostname",
        "insecure-skip-verify",
    ],
)
def test_an_option_that_says_whom_members_let_in_is_refused(flag: str) -> None:
    with pytest.raises(ConfigurationError, match=r"says whom members let in|is set by the operator"):
        EtcdConfig(options={flag: "false"})
