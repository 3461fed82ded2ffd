"""What was evaluated once: recalled whole and only for what it was, or not at all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import NotFoundError, Source
from fleet.evaluate import cache as remembered
from fleet.evaluate import cache as surroundings
from fleet.evaluate import pool
from fleet.evaluate.cache import load_evaluation, store_evaluation
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.objects import desired
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.normalise import manifest_hash
from fleet.repository.settings import Budget, Code, Settings, Trust
from fleet.sync.source import evaluate_checkout, read_commit
from fleet.testing.git import git

TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
SETTINGS = Settings(budget=Budget(3), trust=Trust(Code.OWN))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FLEET_CACHE_DIR", raising=False)
    return tmp_path / "cache" / "fleet" / "evaluations"


def manifest(kind: str = "ConfigMap", name: str = "a") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n"}, "data": {"é": "\u2028"}}


def evaluation(*objects: Object) -> Evaluation:
    source = Source("stacks/a.py", 7)
    desired = Desired("a", "eu-1", objects, {"port": 80, "names": ["x"]}, source)
    stack = StackResult("a", source, ("eu-1",), RolloutData((("eu-1",),), "0s", "10m"), (desired,), ("b",))
    cluster = ClusterData("eu-1", {"env": "prod"}, None, None, False, Source("clusters/a.py", 1))
    return Evaluation((cluster,), (stack,))


PLAIN = evaluation(
    Object(manifest(), Source("stacks/a.py", 9)),
    Object(
        manifest(name="b"),
        Source("stacks/a.py", 10),
        app="Etcd",
        depends_on=(Key("", "ConfigMap", "n", "a"),),
        protect=True,
        retain_on_delete=True,
        adopt=True,
        ignore_changes=("spec.replicas",),
        aliases=(Key("", "ConfigMap", "n", "old"),),
    ),
)


def file_of(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


def test_what_is_recalled_is_what_was_remembered_with_the_hashes_of_manifests() -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    found = load_evaluation(TREE)
    assert found is not None
    assert (found.settings, found.evaluation) == (SETTINGS, PLAIN)
    objects = found.evaluation.stacks[0].desired[0].objects
    assert [one.hash for one in objects] == [manifest_hash(one.manifest) for one in objects]
    assert all(type(key) is Key for key in (objects[1].key, *objects[1].depends_on, *objects[1].aliases))


def test_manifests_are_decoded_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    found = load_evaluation(TREE)
    assert found is not None
    with monkeypatch.context() as without_decoder:
        without_decoder.setattr(desired, "orjson", None)
        objects = found.evaluation.stacks[0].desired[0].objects
        assert [(one.key.name, one.version, one.app, one.source.line) for one in objects] == [
            ("a", "v1", "", 9),
            ("b", "v1", "Etcd", 10),
        ]
        store_evaluation("another", SETTINGS, found.evaluation, found)
        assert load_evaluation("another") is not None
        with pytest.raises(AttributeError):
            _ = objects[0].manifest
    assert [one.manifest for one in objects] == [manifest(), manifest(name="b")]


def test_a_part_without_all_of_its_manifests_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    write_part = remembered._write_part
    monkeypatch.setattr(remembered, "_write_part", lambda stacks: write_part(stacks).rpartition(b"\n")[0])
    store_evaluation(TREE, SETTINGS, PLAIN)
    assert load_evaluation(TREE) is None


def test_another_tree_is_not_known() -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    assert load_evaluation(TREE.replace("4", "5")) is None


def test_another_version_of_fleet_evaluates_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    monkeypatch.setattr(surroundings, "__version__", "99.0")
    assert load_evaluation(TREE) is None


@pytest.mark.parametrize("what", ["_code", "_packages"])
def test_other_code_or_packages_evaluate_for_themselves(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    before = list(getattr(surroundings, what)())
    assert len(before) > 5
    monkeypatch.setattr(surroundings, what, lambda: [*before[:-1], "changed"])
    assert load_evaluation(TREE) is None


@pytest.mark.parametrize("position", [0, 70, -1])
def test_a_damaged_file_is_none(cache: Path, position: int) -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    content = bytearray(file_of(cache).read_bytes())
    content[position] ^= 1
    file_of(cache).write_bytes(content)
    assert load_evaluation(TREE) is None
    store_evaluation(TREE, SETTINGS, PLAIN)
    assert load_evaluation(TREE) is not None, "it is made anew"


@pytest.mark.parametrize("length", [0, 10, 65, 200])
def test_a_file_that_was_cut_short_is_none(cache: Path, length: int) -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    file_of(cache).write_bytes(file_of(cache).read_bytes()[:length])
    assert load_evaluation(TREE) is None


def test_the_memory_of_one_tree_in_the_place_of_another_is_none(cache: Path) -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    file_of(cache).rename(cache / remembered._key("other"))
    assert load_evaluation("other") is None


def test_values_of_secrets_are_not_written(cache: Path) -> None:
    store_evaluation(TREE, SETTINGS, evaluation(Object(manifest("Secret"), Source("a.py"))))
    assert not cache.exists() or not list(cache.iterdir())


SECRET = """import fleet
{head}
@fleet.stack(clusters="eu-1"{needs})
def {name}(cluster: fleet.Cluster) -> None:
    print("evaluated")
    about = {{"apiVersion": "v1", "kind": "{kind}", "metadata": {{"name": "{name}"}}}}
    fleet.Manifest({{**about, "{field}": {{"a": {value}}}}})
"""
DEFINITION = """    fleet.Manifest({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "locks.e.io"},
        "spec": {"group": "e.io", "scope": "Namespaced", "names": {"kind": "Lock", "plural": "locks"}, "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"code": {"type": "string", "format": "password"}}}}}]},
    })
"""


def test_only_files_that_have_to_do_with_secrets_are_evaluated_each_time(tmp_path: Path, cache: Path) -> None:
    root = committed(tmp_path / "r")

    def add(name: str, kind: str, value: str, *, head: str = "", needs: str = "", more: str = "") -> None:
        field = "stringData" if kind == "Secret" else "data"
        text = SECRET.format(name=name, kind=kind, field=field, value=value, head=head, needs=needs) + more
        (root / "stacks" / f"{name}.py").write_text(text)

    add("hidden", "Secret", "'user:' + fleet.output('giver', 'word')")
    add("giver", "ConfigMap", "'none'", more="    fleet.export('word', 'swordfish')\n")
    add("copier", "ConfigMap", "'see user:swordfish'")
    add("reader", "ConfigMap", "fleet.output('hidden', 'port')")
    (root / "stacks" / "hidden.py").open("a").write("    fleet.export('port', '2379')\n")
    add("locked", "ConfigMap", "'open'", more=DEFINITION)
    (root / "stacks" / "locked.py").open("a").write(
        "    fleet.Manifest({'apiVersion': 'e.io/v1', 'kind': 'Lock', 'metadata': {'name': 'l'}, 'code': 'sesame'})\n"
    )
    add("first", "ConfigMap", "'1'")
    write_stack(root, "second", 1)
    files = ["copier", "first", "giver", "hidden", "locked", "reader", "second"]
    assert sorted(file for file, _ in evaluated_now(root).printed) == [f"stacks/{name}.py" for name in files]
    text = file_of(cache).read_bytes()
    assert all(word not in text for word in (b"swordfish", b"c3dvcmRmaXNo", b"sesame"))
    write_stack(root, "second", 2)
    again = ["copier", "giver", "hidden", "locked", "reader"]
    found = evaluated_now(root)
    assert sorted(file for file, _ in found.printed) == [f"stacks/{name}.py" for name in [*again, "second"]]
    same = evaluated_now(root)
    assert sorted(file for file, _ in same.printed) == [f"stacks/{name}.py" for name in again], "the same commit"
    assert (same.clusters, same.stacks, same.reads) == (found.clusters, found.stacks, found.reads)
    assert all(b"swordfish" not in path.read_bytes() for path in cache.iterdir())
    for path in cache.iterdir():
        path.unlink()
    assert evaluated_now(root).stacks == same.stacks


def test_an_evaluation_that_looked_elsewhere_is_not_kept() -> None:
    store_evaluation(TREE, SETTINGS, replace(PLAIN, foreign=("/etc/hostname",)))
    assert load_evaluation(TREE) is None


def test_it_is_for_its_owner_alone(cache: Path) -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    assert (cache.stat().st_mode & 0o777, file_of(cache).stat().st_mode & 0o777) == (0o700, 0o600)
    cache.chmod(0o770)
    assert load_evaluation(TREE) is None, "others could have written it"


def test_a_link_is_not_followed(cache: Path, tmp_path: Path) -> None:
    store_evaluation(TREE, SETTINGS, PLAIN)
    path = file_of(cache)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert load_evaluation(TREE) is None


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    store_evaluation(TREE, SETTINGS, PLAIN)
    assert load_evaluation(TREE) is None


def test_the_oldest_go_first_and_what_is_used_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_FILES", 3)
    for number in range(3):
        store_evaluation(str(number), SETTINGS, PLAIN)
        os.utime(cache / remembered._key(str(number)), (number, number))
    assert load_evaluation("0") is not None
    store_evaluation("3", SETTINGS, PLAIN)
    assert [bool(load_evaluation(str(number))) for number in range(4)] == [True, False, True, True]
    monkeypatch.setattr(remembered, "MOST_BYTES", 2 * file_size(cache))
    store_evaluation("4", SETTINGS, PLAIN)
    assert len(list(cache.iterdir())) == 2


def file_size(cache: Path) -> int:
    return max(path.stat().st_size for path in cache.iterdir())


def committed(root: Path, stack: str = "pass") -> Path:
    head = 'import fleet\n@fleet.stack(clusters="eu-1")\ndef a(cluster: fleet.Cluster) -> None:\n'
    for name, text in {
        "fleet.toml": "",
        "clusters/all.py": 'import fleet\nfleet.Cluster("eu-1")\n',
        "stacks/a.py": f"{head}    {stack}\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root


def test_a_tree_that_is_known_is_not_evaluated_whatever_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = committed(tmp_path / "r")
    with read_commit(start=root, use_cache=True) as files:
        first = evaluate_checkout(files, ())
        assert files.remembered is None and (files.repository.root / "stacks").is_dir()
    git(root, "commit", "--quiet", "--allow-empty", "--message", "same files")
    monkeypatch.setattr(pool, "Pool", None)  # no process is started
    with read_commit(start=root, use_cache=True) as files:
        second = evaluate_checkout(files, ())
        assert not files.repository.root.exists(), "and no file is written"
        assert evaluate_checkout(files, ["a"]).stacks == first.stacks
        with pytest.raises(NotFoundError, match="no stack 'b'"):
            evaluate_checkout(files, ["b"])
    assert (second.clusters, second.stacks) == (first.clusters, first.stacks)


@pytest.mark.parametrize(
    ("stack", "kept"),
    [
        ("pass", True),
        ("import zoneinfo, json, pydantic; zoneinfo.ZoneInfo('Europe/Paris')", True),
        ("open('fleet.toml').read()", True),
        ("with __import__('contextlib').suppress(OSError): open('/etc/passwd').read()", False),
        ("with __import__('contextlib').suppress(OSError): __import__('os').listdir('/etc')", False),
    ],
)
def test_only_what_follows_from_the_files_is_remembered(tmp_path: Path, stack: str, kept: bool) -> None:
    root = committed(tmp_path / "r", stack)
    with read_commit(start=root, use_cache=True) as files:
        evaluate_checkout(files, ())
    with read_commit(start=root, use_cache=True) as files:
        assert (files.remembered is not None) == kept


PRINTING = """import fleet
@fleet.stack(clusters="eu-1")
def {name}(cluster: fleet.Cluster) -> None:
    print("evaluated")
    about = {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}}}
    fleet.Manifest({{**about, "data": {{"n": "{n}"}}}})
"""


def evaluated_now(root: Path, *names: str) -> Evaluation:
    with read_commit(start=root, use_cache=True) as files:
        return evaluate_checkout(files, names)


def write_stack(root: Path, name: str, number: int) -> None:
    (root / "stacks" / f"{name}.py").write_text(PRINTING.format(name=name, n=number))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", f"{name} {number}")


@pytest.mark.parametrize("below", ["", "fleets/shop"])
def test_of_a_new_commit_only_what_changed_is_evaluated(
    tmp_path: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = committed(tmp_path / "r") / below
    if below:
        root.mkdir(parents=True)
        for name in ("fleet.toml", "clusters", "stacks"):
            (tmp_path / "r" / name).rename(root / name)
    write_stack(root, "b", 1)
    write_stack(root, "c", 1)
    assert [file for file, _ in evaluated_now(root).printed] == ["stacks/b.py", "stacks/c.py"]
    write_stack(root, "b", 2)
    assert [file for file, _ in evaluated_now(root, "c").printed] == [], "another one was asked for"
    found = evaluated_now(root)
    assert [file for file, _ in found.printed] == ["stacks/b.py"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    assert (found.clusters, found.stacks) == ((anew := evaluated_now(root)).clusters, anew.stacks)


def test_other_settings_or_a_file_that_came_evaluate_everything(tmp_path: Path) -> None:
    root = committed(tmp_path / "r")
    write_stack(root, "b", 1)
    evaluated_now(root)
    (root / "fleet.toml").write_text('[limits]\ntime = "20s"\n')
    write_stack(root, "a", 1)
    assert [file for file, _ in evaluated_now(root).printed] == ["stacks/a.py", "stacks/b.py"]
    write_stack(root, "json", 1)  # an import of b's could mean this one now
    assert [file for file, _ in evaluated_now(root).printed] == ["stacks/a.py", "stacks/b.py", "stacks/json.py"]
