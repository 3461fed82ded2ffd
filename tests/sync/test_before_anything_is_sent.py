"""What is known to be wrong before a sync is said before it, and what a person should know too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.cli import run
from fleet.kube import schema
from fleet.kube.discovery import Discovery
from fleet.objects.desired import Key
from fleet.objects.resource import Resource
from fleet.plan import Step, Verb
from fleet.sync.planning import INSTALL, unserved_error
from fleet.testing.git import git
from fleet.testing.proxy import Proxy
from tests.cli.test_check import BAD, stack, write
from tests.sync.fleet_repository import FleetRepository, config_map

KINDS = (
    "a wrong type",
    "an unknown field",
    "an even member count",
    "a bad version",
    "a duplicate name",
    "an unknown label",
    "a dependency cycle",
    "an exception in user code",
    "an endless loop",
    "1 GB of output",
    "random values",
    "a syntax error",
    "no cluster that matches",
)


PROPERTIES = {
    "color": {"type": "string", "maxLength": 9, "allOf": [{"pattern": "^[a-z]+$"}]},
    "size": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"color": {"type": "string"}}},
    "token": {"type": "string", "format": "password"},
}
STATUS = {"type": "object", "additionalProperties": {"type": "integer"}, "allOf": [{"properties": {"a": {}}}]}
GADGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.gadgets.example.com"},
    "spec": {
        "group": "gadgets.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": PROPERTIES}, "status": STATUS},
                    }
                },
            }
        ],
    },
}
OURS = {"apiVersion": "fleet.dev/v1alpha1", "metadata": {"name": "db"}, "spec": {"version": "3.5"}}


def gadget(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, **fields}


@pytest.mark.timeout(300)
def test_nothing_is_sent_to_any_cluster_for_bad_input(
    api_proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """With `--full` for all of it; without, for a kind each."""
    access = yaml.safe_load(api_proxy.kubeconfig.read_text())
    (there,) = access["contexts"]
    access["contexts"] = [{**there, "name": name} for name in ("eu-1", "us-1")]
    kubeconfig = tmp_path / "both"
    kubeconfig.write_text(yaml.safe_dump(access))

    def sync(root: Path, *flags: str) -> int:
        git(root, "init", "--quiet", "--initial-branch=main")
        git(root, "add", "--all")
        git(root, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=bad")
        monkeypatch.chdir(root)
        return run(["sync", "--no-status", "--kubeconfig", str(kubeconfig), *flags])

    chosen = [bad for bad in BAD if request.config.getoption("--full") or bad.name in KINDS]
    assert len(chosen) >= len(KINDS)
    for number, bad in enumerate(chosen):
        code = sync(write(tmp_path / str(number), bad.files, bad.settings))
        said = capsys.readouterr().err
        assert (code, bad.says in said) == (2, True), f"{bad.name}: {said}"
        assert api_proxy.requests == [], bad.name
    right = write(tmp_path / "right", {"stacks/orders.py": stack("pass")})
    assert sync(right, "--expect-no-changes") in (0, 7)
    assert api_proxy.requests, "what is right is sent by this way"


def test_a_remote_that_is_not_there_is_said_while_nothing_is_changed(repository: FleetRepository) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    git(repository.root, "remote", "rename", "origin", "upstream")
    refused = repository.sync()
    assert refused.code == 2
    assert "this repository has no remote 'origin'" in refused.err
    assert "it has upstream" in refused.err
    assert [repository.data(one, "settings") for one in repository.clusters] == [None, None]
    assert repository.sync("--no-status").code == 0


def test_what_the_schema_of_a_kind_refuses_is_found_before_even_the_namespace_is_made(
    repository: FleetRepository,
) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "localhost/web"}]}}
    spec = {"replica": 2, "selector": {"matchLabels": labels}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    numbers = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": 8080}}
    for manifest, field, hint in (
        (web, "spec.replica", "did you mean 'replicas'?"),
        (numbers, "spec.clusterIP", 'in quotes it is text: "8080"'),
        ({**web, "spec": {"template": template}}, "spec.selector", "needs a field 'selector' there"),
        ({**numbers, "spec": {"type": "ClusterIp"}}, "spec.type", "did you mean 'ClusterIP'?"),
        (gadget(spec={"colour": "red"}), "spec.colour", "did you mean 'color'?"),
    ):
        repository.wants(f"fleet.Manifest({manifest!r})", config_map("first", {"a": "1"}), f"fleet.Manifest({GADGETS})")
        repository.commit()
        for command in (["preview"], ["sync", "--dry-run"], ["sync"]):
            refused = repository.fleet(*command)
            assert refused.code == 2, command
            assert refused.err.count("error: ") == 1, "one for both clusters"
            assert f"error: stacks/stack.py:7: {field}: {manifest['kind']}" in refused.err, refused.err
            assert hint in refused.err
        for cluster in repository.clusters:
            assert cluster.kubectl("get", "namespace", repository.namespace, "--ignore-not-found") == ""
    repository.wants(config_map("first", {"a": "1"}), f"fleet.Manifest({ {**OURS, 'kind': 'Etdc'} })")
    repository.commit()
    refused = repository.fleet("preview")
    assert (refused.code, "did you mean 'Etcd'?" in refused.err) == (2, True), refused.err


@pytest.mark.parametrize(
    ("group", "version", "kind", "hint"),
    [
        ("fleet.dev", "v1alpha1", "Etdc", "did you mean 'Etcd'?"),
        ("example.com", "v1", "Gagdet", "did you mean 'Gadget'?"),
        ("example.com", "v2", "Gadget", "there it is served as example.com/v1"),
        ("exmaple.com", "v1", "Gadget", "did you mean apiVersion: example.com/v1?"),
        ("example.com", "v1", "Certificate", INSTALL),
        ("cert-manager.io", "v1", "Certificate", INSTALL),
        ("example.com", "v1", "G" * 5_000, INSTALL),
    ],
)
def test_a_kind_that_is_not_served_is_told_with_the_one_that_was_probably_meant(
    group: str, version: str, kind: str, hint: str
) -> None:
    served = Discovery()
    served.add(Resource("example.com", "v1", "Gadget", "gadgets", namespaced=True))
    served.add(Resource("", "v1", "Pod", "pods", namespaced=True))
    found = unserved_error("eu", {(group, version, kind): Step(Verb.CREATE, Key(group, kind, "shop", "a"))}, served)
    assert found is not None
    assert found.message == f"eu does not know the kind {kind} ({group}/{version})"
    assert found.hint == hint


def test_of_what_is_there_in_a_plan_with_its_definition_only_what_the_definition_refuses_is_wrong() -> None:
    def wrong(manifest: dict[str, Any], definition: dict[str, Any] = GADGETS) -> list[tuple[str, str | None]]:
        found = schema.find_mistakes(Key.of(manifest), manifest, schema.defined_by(definition))
        return [(mistake.field, mistake.hint) for mistake in found]

    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "color": "red"}
    assert wrong(gadget(spec={"color": "red", "size": "10%", "free": {"a": [1]}, "pod": pod}, status={"a": 1})) == []
    assert wrong(gadget(spec={"color": None, "size": 10})) == []
    assert wrong(gadget(spec={"color": 1})) == [("spec.color", 'in quotes it is text: "1"')]
    assert wrong(gadget(sepc={})) == [("sepc", "did you mean 'spec'?")]
    assert wrong(gadget(spec={"pod": {**pod, "colour": 1}})) == [("spec.pod.colour", "did you mean 'color'?")]
    assert wrong(gadget(spec={"token": 12345})) == [("spec.token", "in quotes it is text")], "the value is not shown"
    assert wrong({**gadget(sepc={}), "apiVersion": "gadgets.example.com/v2"}) == [], "another version"
    odd: object
    for odd in (None, 1, "x", [], {"properties": 1}, {"properties": {"spec": 1}}, {"oneOf": [1]}, {"allOf": [1]}):
        versions = [{"name": "v1", "schema": {"openAPIV3Schema": odd}}]
        assert wrong(gadget(spec={"color": 1}), {"spec": {**GADGETS["spec"], "versions": versions}}) == [], odd


def test_another_branch_than_the_one_that_is_synced_is_refused_unless_a_person_says_so(
    repository: FleetRepository,
) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    first = repository.commit()
    assert "is synced" not in repository.sync().err
    git(repository.root, "switch", "--quiet", "--create", "idea")
    repository.wants(config_map("settings", {"a": "2"}))
    idea = repository.commit()
    refused = repository.sync()
    assert (refused.code, repository.data(repository.clusters[0], "settings")) == (2, {"a": "1"})
    assert "this is the branch idea, and fleet.toml says that main is synced" in refused.err
    assert "git switch main; or apply it all the same with --any-branch" in refused.err
    assert "refused as rewritten" in refused.err
    tried = repository.sync("--dry-run")
    assert (tried.code, "main will be refused as rewritten" in tried.err) == (0, True), "to look is no harm"
    git(repository.root, "switch", "--quiet", "main")
    tried = repository.sync("--revision", idea, "--dry-run")
    assert f"{idea[:8]} is not on the branch main: main will be refused as rewritten" in tried.err
    for revision in (idea, "idea"):
        refused = repository.sync("--revision", revision)
        assert (refused.code, repository.data(repository.clusters[0], "settings")) == (2, {"a": "1"})
        assert f"{idea[:8]} is not on the branch main, and fleet.toml says that main is synced" in refused.err
    git(repository.root, "switch", "--quiet", "--detach", "idea")
    refused = repository.sync()
    assert (refused.code, repository.data(repository.clusters[0], "settings")) == (2, {"a": "1"})
    assert f"{idea[:8]} is not on the branch main" in refused.err
    named = repository.sync("--revision", first)
    assert (named.code, "branch" in named.err) == (0, False)
    git(repository.root, "switch", "--quiet", "idea")
    done = repository.sync("--any-branch")
    assert (done.code, repository.data(repository.clusters[0], "settings")) == (0, {"a": "2"})
    assert f"this is the branch idea: main will be refused as rewritten until it has {idea[:8]}" in done.err
    git(repository.root, "switch", "--quiet", "main")
    repository.wants(config_map("settings", {"a": "3"}))
    repository.commit()
    locked = repository.sync()
    assert (locked.code, "the history was rewritten" in locked.err) == (5, True), "as it was said beforehand"


def test_commits_that_are_not_pushed_are_named(repository: FleetRepository) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit("Settings")
    assert "not pushed" not in repository.sync().err, "nobody knows what the remote has"
    git(repository.root, "push", "--quiet", "--set-upstream", "origin", "main")
    assert "not pushed" not in repository.sync().err
    repository.wants(config_map("settings", {"a": "2"}))
    mine = repository.commit("Larger\x1b[31m settings")
    done = repository.sync()
    assert done.code == 0
    unpushed = f"not pushed to origin, so others cannot build on it: {mine[:8]} Larger [31m settings"
    assert unpushed in done.err
    assert unpushed in repository.sync("--revision", mine).err
    git(repository.root, "switch", "--quiet", "--detach", "main")
    assert unpushed in repository.sync().err
    git(repository.root, "switch", "--quiet", "--create", "idea")
    assert unpushed in repository.sync("--any-branch").err
    git(repository.root, "push", "--quiet", "origin", "idea")
    assert "not pushed" not in repository.sync("--any-branch").err, "it is there, on another branch"


def test_ci_applies_a_commit_of_the_branch_that_it_checked_out_without_a_branch(
    repository: FleetRepository, tmp_path: Path
) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    git(repository.root, "push", "--quiet", "--set-upstream", "origin", "main")
    git(repository.root, "switch", "--quiet", "--detach", "main")
    git(repository.root, "branch", "--quiet", "--delete", "--force", "main")
    done = repository.sync()
    assert (done.code, "branch" in done.err) == (0, False), "the remote's branch has it"
    repository.wants(config_map("settings", {"a": "2"}))
    idea = repository.commit()
    git(repository.root, "push", "--quiet", "origin", "HEAD:refs/heads/idea")
    refused = repository.sync()
    assert (refused.code, f"{idea[:8]} is not on the branch main" in refused.err) == (2, True)
    shallow = tmp_path / "shallow"
    source = repository.remote.path.as_uri()
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=idea", source, str(shallow))
    git(shallow, "switch", "--quiet", "--detach", "idea")
    repository.monkeypatch.chdir(shallow)
    passed = repository.sync("--no-status")
    assert (passed.code, repository.data(repository.clusters[0], "settings")) == (0, {"a": "2"})
    assert f"not known whether {idea[:8]} is on the branch main: this clone is shallow" in passed.err


def test_a_file_that_is_no_kubeconfig_is_named(repository: FleetRepository, tmp_path: Path) -> None:
    repository.wants(config_map("settings", {"a": "1"}))
    repository.commit()
    for content in ("", "just text\n", "- a\n- list\n"):
        (tmp_path / "config").write_text(content)
        refused = repository.fleet("preview", "--kubeconfig", str(tmp_path / "config"))
        assert f"{tmp_path / 'config'} is not a kubeconfig" in refused.err, content
        assert refused.code == 2
