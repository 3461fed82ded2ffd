"""Which files are evaluated again after a commit: decided from what each was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import Source
from fleet.evaluate.evaluation import evaluate, still_true
from fleet.evaluate.pool import Pool
from fleet.evaluate.result import ClusterData, Evaluation, Reads, RolloutData, StackResult
from fleet.repository import Repository

FILES = ("stacks/a.py", "stacks/b.py", "stacks/c.py")


def stack(name: str, *needs: str) -> StackResult:
    return StackResult(name, Source(f"stacks/{name}.py", 1), (), RolloutData((), "0s", "15m"), (), needs)


BEFORE = Evaluation(
    clusters=(ClusterData("eu", {}, None, None, False, Source("clusters/all.py", 1)),),
    stacks=(stack("a"), stack("b", "a"), stack("c")),
    reads=(
        Reads("stacks/a.py", ("shared.py", "stacks/a.py"), ()),
        Reads("stacks/b.py", ("stacks/b.py",), ()),
        Reads("stacks/c.py", ("stacks/c.py",), ("yaml",)),
    ),
)


@pytest.mark.parametrize(
    ("edited", "moved", "left"),
    [
        ([], [], "abc"),
        (["README.md"], [], "abc"),
        (["stacks/c.py"], [], "ab"),
        (["stacks/a.py"], [], "c"),  # b reads what a exports
        (["shared.py"], [], "c"),
        (["stacks/b.py"], [], "ac"),
        (["yaml/deep/one.yaml"], [], "ab"),
        ([], ["stacks/d.py"], "abc"),
        ([], ["stacks/json.py"], None),  # would be found by an import of that name
        ([], ["stacks/shared.py"], None),
        ([], ["data.txt"], None),  # somebody may have looked for it and not found it
        (["fleet.toml"], [], None),
        (["stacks/requirements.lock"], [], None),
    ],
)
def test_what_still_holds(edited: list[str], moved: list[str], left: str | None) -> None:
    files = {*FILES, *(path for path in moved if path.startswith("stacks/"))}
    found = still_true(
        BEFORE, edited=edited, moved=moved, files=files, of_all=["fleet.toml", "stacks/requirements.lock"]
    )
    assert (found and "".join(one.name for one in found.stacks)) == left


def test_a_file_of_stacks_that_went_takes_its_readers_with_it() -> None:
    found = still_true(
        BEFORE, edited=(), moved=["stacks/a.py"], files=FILES[1:], of_all=["fleet.toml", "stacks/requirements.lock"]
    )
    assert found is not None
    assert [one.file for one in found.reads] == ["stacks/c.py"]


def test_only_what_changed_is_run_and_the_result_is_that_of_a_whole_evaluation(tmp_path: Path) -> None:
    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)

    write("fleet.toml", "")
    write("clusters/all.py", "import fleet\nfleet.Cluster('eu')\n")
    text = "import fleet\n@fleet.stack(clusters='eu', name={0!r})\ndef one(cluster: fleet.Cluster) -> None:\n    {1}\n"
    write("stacks/a.py", text.format("a", "fleet.export('x', 1)"))
    write("stacks/b.py", text.format("b", "fleet.export('y', fleet.output('a', 'x', int))"))
    write("stacks/c.py", text.format("c", "pass"))
    repository = Repository.at(tmp_path)
    with Pool() as pool:
        before = evaluate(repository, pool=pool).check()
        write("stacks/a.py", text.format("a", "fleet.export('x', 2)"))
        known = still_true(
            before,
            edited=["stacks/a.py"],
            moved=(),
            files=repository.stack_files(),
            of_all=["fleet.toml", "stacks/requirements.lock"],
        )
        after = evaluate(repository, pool=pool, before=known).check()
        assert after == evaluate(repository, pool=pool).check()
    one, other = ({each.name: each for each in found.stacks} for found in (before, after))
    assert other["c"] is one["c"]
    assert other["b"].desired[0].exports == {"y": 2}
