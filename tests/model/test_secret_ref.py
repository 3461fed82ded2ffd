"""A secret by its name: where it is used, and where it is not to be had."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet import S3, ConfigurationError, SecretRef
from fleet.apps import Etcd


def test_it_refers_to_a_secret_where_kubernetes_takes_one() -> None:
    assert SecretRef("db", "password").value_from == {"secretKeyRef": {"name": "db", "key": "password"}}
    assert SecretRef("db").env_from == {"secretRef": {"name": "db"}}
    assert SecretRef("db").volume == {"secret": {"secretName": "db"}}


def test_an_app_takes_one_where_it_takes_a_name() -> None:
    store = S3("backups/orders", secret=SecretRef("s3"))
    assert store == S3("backups/orders", secret="s3")
    assert store.dump() == {"place": "backups/orders", "secret": "s3"}


def test_the_secret_of_a_connection_is_one() -> None:
    ref = Etcd("registry", version="3.5").connection.ref("tls.key")
    assert ref.value_from["secretKeyRef"]["key"] == "tls.key"


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: f"{SecretRef('db')}", "not in a stack's hands"),
        (lambda: str(SecretRef("db", "password")), "not in a stack's hands"),
        (lambda: "%s" % SecretRef("db"), "not in a stack's hands"),  # noqa: UP031
        (lambda: SecretRef("db").value_from, "name one of its keys"),
        (lambda: SecretRef("Not A Name"), "is not the name of an object"),
        (lambda: SecretRef("db", "a key"), "key"),
        (lambda: S3("backups", secret=SecretRef("s3", "key")), "takes a whole Secret"),
    ],
)
def test_there_is_no_value_to_be_had(use: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        use()
    assert said in str(refused.value)
