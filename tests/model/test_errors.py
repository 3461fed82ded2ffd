"""Wrong values: each error has the file and line of the call, the field, and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fleet
from fleet import S3, Backup, Options, Resources
from fleet.apps import Etcd
from fleet.apps.etcd import EtcdConfig
from fleet.errors import ConfigurationError
from tests.model.lines import line_of

any_etcd: Any = Etcd  # the type checker would find these mistakes before we do
any_s3: Any = S3
any_backup: Any = Backup
any_options: Any = Options
any_manifest: Any = fleet.Manifest


@pytest.mark.parametrize(
    ("wrong", "field", "message", "hint"),
    [
        (
            lambda: Etcd("db", version="3.5", members=4),
            "members",
            "must be odd, so that a majority can always be found, not 4",
            "3 or 5",
        ),
        (lambda: Etcd("db", version="3.5", members=9), "members", "must be at most 7, not int 9", None),
        (
            lambda: any_etcd("db", version="3.5", members="3"),
            "members",
            "must be a whole number, not str '3'",
            "How many",
        ),
        (
            lambda: any_etcd("db", version="3.5", members=True),
            "members",
            "must be a whole number, not bool True",
            "How many",
        ),
        (lambda: any_etcd("db", version=3.5), "version", "must be a string, not float 3.5", "put it in quotes: '3.5'"),
        (lambda: Etcd("db", version="v3.5"), "version", "'v3.5' is not a version", "write '3.5'"),
        (
            lambda: Etcd("db", version="3.9"),
            "version",
            "must be a release of etcd 3.4, 3.5 or 3.6, not '3.9'",
            "'3.6' is the newest series",
        ),
        (lambda: any_etcd("db"), "version", "is required by Etcd", "The version to run"),
        (lambda: any_etcd(version="3.5"), "name", "is required by Etcd", "Its name"),
        (
            lambda: any_etcd("db", version="3.5", memebrs=3),
            "memebrs",
            "Etcd has no field 'memebrs'",
            "did you mean 'members'?",
        ),
        (lambda: Etcd("Orders_DB", version="3.5"), "name", "'Orders_DB' is not a name", "'orders-db' would be right"),
        (
            lambda: Etcd("db", version="3.5", storage="10GB"),
            "storage",
            "'10GB' is not a quantity",
            "did you mean '10Gi'?",
        ),
        (
            lambda: any_etcd("db", version="3.5", storage=1),
            "storage",
            "must be a string with a unit, not 1",
            "'1Gi' of storage, '1' of CPUs",
        ),
        (lambda: any_etcd("db", "3.5"), "Etcd", "takes only name by position, not 2 values", "name the others"),
        (lambda: any_etcd("db", name="db", version="3.5"), "name", "is given twice", None),
        (
            lambda: any_etcd("db", version="3.5", backup="daily"),
            "backup",
            "must be Backup, not str 'daily'",
            "Backups by schedule",
        ),
        (lambda: any_backup(to="s3", schedule="@daily"), "to", "must be S3, NFS or Claim, not str 's3'", "such as S3("),
        (lambda: any_s3("backups"), "secret", "is required by S3", None),
        (lambda: S3("s3://b/x", secret="s"), "place", "'s3://b/x' is a URL", "write the bucket and a folder"),
        (lambda: S3("my bucket/x", secret="s"), "place", "'my bucket' is not the name of a bucket", "letters, digits"),
        (lambda: S3("b/x/", secret="s"), "place", "'b/x/' is not a place in a store", "write it without slashes"),
        (
            lambda: S3("b", secret="s", endpoint="https://s3.test/b"),
            "endpoint",
            "'https://s3.test/b' is not the URL of a store",
            "scheme, name and port alone",
        ),
        (lambda: Backup(to=S3("b", secret="s"), schedule="@daily", keep_for="30"), "keep_for", "'30'", None),
        (lambda: Backup(to=S3("b", secret="s"), schedule="daily"), "schedule", "'daily' has 1 field,", "minute, hour"),
        (
            lambda: Resources(cpu="2", cpu_limit="1"),
            "cpu_limit",
            "the limit of CPU is less than what is set aside",
            None,
        ),
        (lambda: EtcdConfig(options={"--debug": "1"}), "options", "'--debug' begins with a dash", "write 'debug'"),
        (lambda: EtcdConfig(options={"name": "x"}), "options", "'name' is set by the operator", "leave it out"),
        (
            lambda: EtcdConfig(options={"quota-backend-bytes": "1"}),
            "options",
            "'quota-backend-bytes' has a field of its own",
            "set quota instead",
        ),
        (lambda: EtcdConfig(heartbeat_ms=900), "election_ms", "the election timeout must be", "election_ms=9000"),
        (lambda: any_options(depends_on=[3]), "depends_on[0]", "must be Resource, not int 3", None),
        (lambda: any_options(protect="yes"), "protect", "must be True or False, not str 'yes'", "Refuse to delete"),
        (lambda: Options(ignore_changes=["a b"]), "ignore_changes[0]", "'a b' is not a path of fields", "such as"),
        (
            lambda: fleet.Cluster("eu", context="a", pull=True),
            "pull",
            "cannot be reached by context and pull at once",
            "keep one",
        ),
        (lambda: fleet.Cluster("eu", secret="creds"), "secret", "'creds' names no namespace", "write 'namespace/name'"),
        (lambda: fleet.Cluster("eu", labels={"a b": "c"}), "labels", "'a b' is not a name for a label", "letters"),
        (lambda: any_manifest({"kind": "ConfigMap"}), "object", "has no apiVersion", "such as {"),
        (lambda: any_manifest([]), "object", "must be a dict, not list", "such as {"),
        (lambda: fleet.where(env=3), "where(env)", "must be a string or a list of strings, not int 3", None),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_value_is_explained(wrong: Callable[[], object], field: str, message: str, hint: str | None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wrong()
    error = caught.value
    assert error.field == field
    assert error.message.startswith(message)
    assert (error.hint or "").startswith(hint or "")
    assert error.source is not None
    assert error.source.file.endswith("test_errors.py")
    assert error.exit_code == 2


def test_the_line_is_that_of_the_users_call() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Etcd(  # call
            "db",
            version="3.5",
            members=2,
        )
    assert caught.value.source is not None
    assert caught.value.source.line == line_of(__file__, "call")


def test_everything_that_is_wrong_with_a_call_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        any_etcd("db", version="x", members=2, storge="1Gi")
    text = str(caught.value)
    assert "version: 'x' is not a version" in text
    assert "also members: must be odd" in text
    assert "also storge: Etcd has no field 'storge' (did you mean 'storage'?)" in text


def test_nothing_can_be_changed_once_it_is_made() -> None:
    db: Any = Etcd("db", version="3.5")
    with pytest.raises(ConfigurationError, match="Etcd cannot be changed once it is made") as caught:
        db.members = 5  # set
    assert caught.value.source is not None
    assert caught.value.source.line == line_of(__file__, "set")
    labels: Any = fleet.Cluster("eu", labels={"a": "b"}).labels
    with pytest.raises(TypeError):
        labels["a"] = "c"
    assert isinstance(Options(ignore_changes=["members"]).ignore_changes, tuple)
