"""Settings of tenants are read within bounds: what unfolds, nests or says another thing than it seems is refused."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import yaml

from fleet import TLS
from fleet.apps import Etcd
from fleet.apps.etcd import EtcdConfig
from fleet.apps.etcd.files import common, file_of
from fleet.errors import ConfigurationError
from fleet.kit.members import MemberRecord
from fleet.kit.workload.settings_text import SettingsError, read_settings, read_value
from tests.kubectl_yaml import Judge, build
from tests.model.test_yaml_text import INFINITE, WORDS, shape

LAUGHS = "[&a [x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c]]"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5000", 5000),
        ("true", True),
        ("2s", "2s"),
        ("[a, b]", ["a", "b"]),
        ("2001-01-01", "2001-01-01"),
        ("'{\"a\": 1}'", '{"a": 1}'),
        ("", None),
    ],
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
        ('{"a": 1}', "a mapping"),
        (".inf", "is not YAML: .inf is no number"),
        ("a\n---\nb", "several documents"),
        ("[a", "is not YAML"),
        ("'a", "is not YAML"),
        ("\x00", "is not YAML"),
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
        "0.5: a",
        "a: 1\na: 2",
        "[a]",
    ],
)
def test_a_file_of_settings_is_refused_within_bounds_too(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(SettingsError):
        read_settings(text)
    assert time.process_time() - begun < 5, "it was built before it was counted"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """The library that etcd reads its configuration with, as kubectl does."""
    return build(tmp_path_factory.mktemp("judge"))


def test_an_option_reaches_etcd_as_the_data_that_it_is(judge: Judge) -> None:
    odd = ["08", "1e3", "12:30", "y", "2001-01-01", "9" * 100, "é", "'y'", '["y", "12:30"]', "[y, 12:30, 1e3]"]
    words = [word for word in WORDS if not re.match(r"[!&*]|\.\.\.|-$", word)]  # YAML's own signs
    texts = [*words, *odd]
    meant = judge([f"a: {text}\n" for text in texts])
    apps = [Etcd("db", version="3.5", config=EtcdConfig(options={"odd": text})) for text in texts]
    received = judge([file_of(app, "db-0", MemberRecord("settled"), common(app)) for app in apps])
    wrong = [
        (text, wanted, got)
        for text, wanted, got in zip(texts, meant, received, strict=True)
        if shape(got["documents"][0]["odd"]) != shape(wanted["documents"][0]["a"])
    ]
    assert not wrong


def test_texts_of_an_adopted_etcd_reach_it_as_texts_and_its_file_is_read_as_it_reads_it(judge: Judge) -> None:
    texts = [*WORDS, *INFINITE, "y", "1e3", "08", "12:30", "2001-01-01", "é", "a b " * 40, "", "- x", "#", "\t"]
    settings = {"odd": texts, "more": {text: text for text in texts}}
    text = file_of(Etcd("db", version="3.5"), "db-0", MemberRecord("settled"), settings)
    (result,) = judge([text])
    (document,) = result["documents"]
    assert (document["odd"], document["more"]) == (settings["odd"], settings["more"])
    written = "a: [y, 12:30, 1e3, 08, 0o17, 2001-01-01, 1_000]\nb: no\n"
    assert shape(read_settings(written)) == shape(judge([written])[0]["documents"][0])


def test_ordinary_settings_are_written_as_ever() -> None:
    """A file that changes is a ConfigMap that changes in every cluster."""
    ordinary: dict[str, Any] = {
        "experimental-corrupt-check-time": "2s",
        "max-txn-ops": 256,
        "experimental-initial-corrupt-check": True,
        "log-outputs": ["stderr", "/var/log/etcd.log"],
        "cipher-suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        "experimental-distributed-tracing-service-name": "a name of many words, which goes on for more than one line "
        * 3,
        "host-whitelist": "*",
        "nothing": None,
        "part": 0.5,
        "quoted": ["true", "12", "", "a: b", "ä €", "x" * 200, "https://10.0.0.1:2379"],
        "security": {"trusted": "ca.crt", "auth": True},
    }
    app, place = Etcd("db", version="3.5"), MemberRecord("settled")
    text = file_of(app, "db-0", place, {**common(app), **ordinary})
    assert text == yaml.safe_dump(yaml.safe_load(text), sort_keys=True)


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
