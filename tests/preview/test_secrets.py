"""Values that must never be seen, put wherever a stack can put them, and looked for in everything that fleet says."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleet.testing import Cluster
from fleet.testing.git import git
from tests.preview.plain import PlainRepository
from tests.sync.fleet_repository import FleetRepository, Run

WORD = "canary"  # part of every value that must not be seen
FORMS = (
    WORD,
    *(base64.b64encode(b" " * n + WORD.encode()).decode()[a:b] for n, a, b in ((0, 0, 8), (1, 2, 9), (2, 3, 10))),
)
VIEWS = ("text", "json", "yaml", "markdown")


def leaks(text: str) -> list[str]:
    return [line for line in text.splitlines() if any(form in line for form in FORMS)]


def check(done: Run, *, code: int = 0) -> Run:
    assert done.code == code, done.err
    assert not leaks(done.out)
    assert not leaks(done.err)
    return done


def definition(group: str, **rule: object) -> dict[str, object]:
    token = {"type": "string", "format": "password", **rule}
    spec = {"type": "object", "properties": {"token": token, "size": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"vaults.{group}", "annotations": {"fleet.dev/on-delete": "delete"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Vault", "plural": "vaults", "singular": "vault", "listKind": "VaultList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def secret(name: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Stack:
    """A stack that has a canary in every place, with `number` in each, so that the next one differs everywhere."""

    def __init__(self, repository: FleetRepository) -> None:
        self.repository = repository
        self.group = f"{repository.stack}.example.com"

    def write(self, number: int, *, token: str = "", size: int = 1, defined: bool = True) -> None:
        value = f"{WORD}-{number}"
        listed = {"apiVersion": "v1", "kind": "List", "items": [secret("listed", stringData={"password": value})]}
        self.repository.write("stacks/files/listed.yaml", yaml.safe_dump(listed))
        vault = {
            "apiVersion": f"{self.group}/v1",
            "kind": "Vault",
            "metadata": {"name": "vault"},
            "spec": {"token": token or value, "size": size},
        }
        crd = definition(self.group, pattern="^[a-z]+-[0-9]+$")
        manifests = [
            secret("text", stringData={"password": value, "several": f"first\n{value} and more\nlast"}),
            secret("data", data={"password": encoded(value)}),
            vault,
        ]
        lines = [f"fleet.Manifest({one!r})" for one in manifests]
        lines += [f"fleet.Manifest({crd!r})"] if defined else []
        lines += [f"fleet.Manifest({secret('theirs', data={'password': encoded(value)})!r}, opts=Options(adopt=True))"]
        self.repository.wants(*lines, 'fleet.manifests("files/*.yaml")')
        self.repository.commit(f"number {number}")


@pytest.fixture
def stack(repository: FleetRepository) -> Iterator[Stack]:
    made = Stack(repository)
    yield made
    for cluster in repository.clusters:
        cluster.kubectl("delete", "crd", f"vaults.{made.group}", "--ignore-not-found", "--wait=false")


def everything_in_git(repository: FleetRepository) -> str:
    """What was published: every file of the status branch in every version, and every note."""
    published = repository.remote.git("log", "--patch", "--text", "fleet/status")
    notes = repository.remote.git("log", "--patch", "--text", "refs/notes/fleet")
    return published + notes


def everything_printed(repository: FleetRepository, directory: Path) -> None:
    """Every command that shows something, in every form."""
    for view in VIEWS:
        check(repository.fleet("preview", "--show-unchanged", "-o", view))
        check(repository.fleet("preview", "--revision", "HEAD", "-o", view))
    for view in ("text", "json", "yaml"):
        check(repository.fleet("status", "--objects", "-o", view))
        check(repository.fleet("render", "-o", view))
    check(repository.fleet("render", "--to", str(directory)))
    for file in directory.rglob("*.yaml"):
        assert not leaks(file.read_text())
    assert repository.fleet("render", "--show-secrets").out.count(WORD), "they are there, for whoever asks"


def their_secret(repository: FleetRepository, cluster: Cluster) -> None:
    """Made by `kubectl apply`, which leaves a copy of it in an annotation."""
    cluster.kubectl("create", "namespace", repository.namespace)
    manifest = secret("theirs", data={"password": encoded(f"{WORD}-of-theirs")}, stringData={"more": f"{WORD}-more"})
    cluster.kubectl("-n", repository.namespace, "apply", "-f", "-", input=json.dumps(manifest))


def test_no_secret_value_is_ever_shown(repository: FleetRepository, stack: Stack, tmp_path: Path) -> None:
    eu, us = repository.clusters
    for cluster in (eu, us):
        their_secret(repository, cluster)
    stack.write(1)
    everything_printed(repository, tmp_path / "first")
    check(repository.sync("-o", "json"))
    check(repository.fleet("status", "--git", "-o", "json"))
    stack.write(2)
    shown = check(repository.fleet("preview"))
    assert "data.password: (redacted) changed" in shown.out
    assert "spec.token: (redacted) changed" in shown.out
    everything_printed(repository, tmp_path / "second")
    for view in ("json", "markdown", "html"):
        check(repository.fleet("preview", "--base", "HEAD~1", "--live", "-o", view))
    check(repository.sync())
    assert base64.b64decode(repository.get(eu, "secret", "text")["data"]["password"]) == f"{WORD}-2".encode()  # type: ignore[index]
    assert not leaks(everything_in_git(repository))


def test_fields_are_secret_by_what_the_server_says_where_git_has_no_definition(
    repository: FleetRepository, stack: Stack
) -> None:
    for cluster in repository.clusters:
        cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(definition(stack.group)))
        cluster.kubectl("wait", "--for=condition=Established", f"crd/vaults.{stack.group}")
    stack.write(1, defined=False)
    check(repository.sync())
    stack.write(2, size=2, defined=False)
    shown = check(repository.fleet("preview"))
    assert "spec.token: (redacted) changed" in shown.out
    assert "spec.size: 1 → 2" in shown.out


def test_a_server_that_quotes_a_secret_value_in_its_refusal_is_not_repeated(
    repository: FleetRepository, stack: Stack
) -> None:
    stack.write(1)
    check(repository.sync())
    stack.write(2, token=f"{WORD}-without-a-number", size=2)
    for form in ("text", "json"):
        failed = check(repository.sync("-o", form), code=4)
        assert "spec.token" in failed.err
        assert "(redacted)" in failed.err
    check(repository.fleet("status"))
    assert not leaks(everything_in_git(repository))
    assert "spec.token" in everything_in_git(repository)
    git(repository.root, "fetch", "--quiet", "origin", "fleet/status")


def test_an_admission_policy_that_repeats_the_object_is_not_repeated(repository: FleetRepository, stack: Stack) -> None:
    """In a sync, in a dry run, in git: whoever wrote the words."""
    stack.write(1)
    check(repository.sync())
    eu, _ = repository.clusters
    for one in admission_policy(repository.namespace):
        eu.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(one))
    try:
        stack.write(2)
        eu.wait("it is in force", lambda: "never" in repository.fleet("preview", "--live", "--cluster", eu.name).err)
        for arguments in (("preview", "--live"), ("preview", "--live", "-o", "html"), ("sync", "--timeout", "30s")):
            failed = check(repository.fleet(*arguments), code=4)
            assert "never (redacted)" in failed.err
        assert not leaks(everything_in_git(repository))
        assert "never (redacted)" in everything_in_git(repository)
    finally:
        for one in admission_policy(repository.namespace):
            eu.kubectl("delete", str(one["kind"]), repository.namespace, "--ignore-not-found")


def admission_policy(namespace: str) -> tuple[dict[str, object], ...]:
    """It refuses every Secret of a namespace, and says which value it has."""
    api, metadata = "admissionregistration.k8s.io/v1", {"name": namespace}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["secrets"]}
    told = "'never ' + object.data['password']"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "messageExpression": told}],
    }
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": namespace, "validationActions": ["Deny"], "matchResources": where}
    return (
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding},
    )


def test_an_evaluation_that_differs_names_the_field_of_a_secret_and_not_its_value(repository: FleetRepository) -> None:
    made = "{'password': 'canary-%s' % os.urandom(4).hex()}"
    repository.wants(
        "import os",
        f"fleet.Manifest({{'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {{'name': 'a'}}, 'stringData': {made}}})",
    )
    done = repository.fleet("check")
    assert done.code == 2
    assert "stringData.password" in done.err
    said = [line for line in leaks(done.err) if "│" not in line]  # a line of the repository's own code is not hidden
    assert not said


def test_a_value_of_a_secret_is_not_exported(plain: PlainRepository) -> None:
    made = secret("a", stringData={"user": "shop", "password": f"{WORD}-1"})
    plain.wants(f"fleet.Manifest({made!r})", "fleet.export('user', 'shop')", "fleet.export('port', 5432)")
    assert plain.fleet("check").code == 0, "a name that everybody sees is none"
    plain.wants(f"fleet.Manifest({made!r})", f"fleet.export('dsn', ['postgresql://shop:{WORD}-1@db'])")
    done = plain.fleet("check")
    assert done.code == 2
    assert "export('dsn'): is, or has in it, a value of a Secret" in done.err
    assert not [line for line in leaks(done.err) if "│" not in line]
