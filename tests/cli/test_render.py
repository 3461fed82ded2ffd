"""`fleet render` on real files, through the real command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import yaml

from tests.kubectl_yaml import build

STACK = """
import fleet
from fleet.apps import Etcd

@fleet.stack(clusters=fleet.where(env="prod"))
def orders(cluster: fleet.Cluster) -> None:
    Etcd("db", version="3.5", members=5 if cluster.name == "eu-1" else 3)

@fleet.stack(clusters="eu-1")
def notes(cluster: fleet.Cluster) -> None:
    fleet.Manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"x": "yes"}})
"""
CLUSTERS = """
import fleet

fleet.Cluster("eu-1", labels={"env": "prod"})
fleet.Cluster("us-1", labels={"env": "prod"})
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {"fleet.toml": "", "stacks/orders.py": STACK, "clusters/all.py": CLUSTERS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def render(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleet", "render", *arguments]
    return subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)


def test_manifests_are_yaml_documents(root: Path) -> None:
    result = render(root)

    assert result.returncode == 0, result.stderr
    documents = list(yaml.safe_load_all(result.stdout))
    members = [one["spec"].get("members") for one in documents if one["kind"] == "Etcd"]
    assert sorted(members) == [3, 5]
    assert (
        "# stack orders, cluster eu-1, stacks/orders.py:7\napiVersion: fleet.dev/v1alpha1\nkind: Etcd\n"
        in result.stdout
    )


def test_stack_and_cluster_narrow_it(root: Path) -> None:
    one = list(yaml.safe_load_all(render(root, "--cluster", "us-1").stdout))
    assert {document["metadata"]["labels"]["fleet.dev/stack"] for document in one} == {"orders"}

    other = list(yaml.safe_load_all(render(root, "--stack", "notes").stdout))
    assert {document["kind"] for document in other} == {"Namespace", "ConfigMap"}


def test_names_that_do_not_exist_are_not_found(root: Path) -> None:
    for flag, name, hint in (("--stack", "order", "orders"), ("--cluster", "eu1", "eu-1")):
        result = render(root, flag, name)
        assert result.returncode == 6
        assert f"did you mean {hint}" in result.stderr.replace("'", "")


def test_json_has_sources_and_exports(root: Path) -> None:
    data = orjson.loads(render(root, "-o", "json").stdout)

    assert [(one["stack"], one["cluster"]) for one in data] == [
        ("notes", "eu-1"),
        ("orders", "eu-1"),
        ("orders", "us-1"),
    ]
    (note,) = [one for one in data[0]["objects"] if one["manifest"]["kind"] == "ConfigMap"]
    assert note["source"] == "stacks/orders.py:11"
    assert note["depends_on"] == ["Namespace notes"]


def test_a_directory_has_a_file_per_cluster_and_stack(root: Path, tmp_path: Path) -> None:
    result = render(root, "--to", "out")

    assert result.returncode == 0, result.stderr
    files = sorted(path.relative_to(root / "out").as_posix() for path in (root / "out").rglob("*.yaml"))
    assert files == ["eu-1/notes.yaml", "eu-1/orders.yaml", "us-1/orders.yaml"]
    assert render(root, "--to", "out").returncode == 2


def test_rendering_is_the_same_to_the_byte(root: Path) -> None:
    assert render(root).stdout == render(root).stdout


def test_a_revision_is_rendered_and_not_the_working_tree(root: Path) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    identity = ["-c", "user.name=Someone", "-c", "user.email=someone@example.com"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=root, check=True, env=environment)
    (root / "stacks/orders.py").write_text("this is not Python\n")

    assert render(root).returncode == 2
    committed = render(root, "--revision", "HEAD", "-o", "text")
    assert committed.returncode == 0, committed.stderr
    assert "Etcd.fleet.dev orders/db" in committed.stdout


def test_what_kubectl_would_read_otherwise_is_in_quotes(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    judge = build(tmp_path_factory.mktemp("judge"))
    words = {"a": "1e3", "y": "08", "no": "12:30", "1e3": "y", "08": "~", "0x1": "2001-01-01", "b": "a\n---\nb: 0o17\n"}
    (root / "stacks/words.py").write_text(
        "import fleet\n@fleet.stack(clusters='us-1')\ndef words(cluster: fleet.Cluster) -> None:\n"
        "    named = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'w'}}\n"
        f"    fleet.Manifest({{**named, 'data': {words!r}}})\n"
    )

    result = render(root, "--stack", "words")

    assert result.returncode == 0, result.stderr
    (documents,) = judge([result.stdout])
    assert documents["error"] == ""
    assert result.stdout.index("metadata:") < result.stdout.index("data:\n"), "as people expect it"
    namespace, one = documents["documents"]
    assert (namespace["kind"], one["kind"], one["data"]) == ("Namespace", "ConfigMap", words)


def test_the_name_of_a_file_adds_no_document(root: Path) -> None:
    forged = "x\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: forged}\n#.py"
    (root / "stacks" / forged).write_text((root / "stacks/orders.py").read_text().replace("def ", "def more_"))

    result = render(root)

    assert result.returncode == 2
    assert result.stdout == ""
    assert "characters that no line can show" in result.stderr
