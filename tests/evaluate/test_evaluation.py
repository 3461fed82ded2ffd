"""What comes out of an evaluation: clusters, stacks in order, exports between them, and what each was made from."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from textwrap import dedent

import pytest

from fleet.errors import NotFoundError, PolicyError, Source
from fleet.evaluate import Evaluation, Limits, Pool, Problem, Problems, answer, evaluate
from fleet.evaluate.answer import WorkerAnswer
from fleet.evaluate.pool import WorkerOutcome
from fleet.evaluate.protocol import Job, Task
from fleet.evaluate.sandbox.level import Layer, Level, Sandbox
from fleet.repository import Code, Repository, Settings, Trust

CLUSTERS = """
    import fleet

    fleet.Cluster("us-1", labels={"env": "prod"}, context="admin@us")
    fleet.Cluster("eu-1", labels={"env": "prod"})
    fleet.Cluster("dev", pull=True)
    """


@pytest.fixture(scope="module", params=[Level.A, Level.B])
def any_pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """For what stops an attack without being a layer of the sandbox."""
    with Pool(sandbox=Sandbox(request.param)) as pool:
        if pool.sandbox_report().level is not request.param:
            pytest.skip(f"this machine does not give level {request.param}")
        yield pool


def repository(root: Path, files: dict[str, str]) -> Repository:
    for name, text in {"fleet.toml": "", "clusters/all.py": CLUSTERS, "stacks/README.md": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip())
    return Repository.at(root)


def config_map(name: str, data: str = "{}") -> str:
    return (
        f'fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": {name}}}, "data": {data}}})'
    )


def stack(name: str, *lines: str, clusters: str = 'fleet.where(env="prod")', head: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines or ("pass",))
    return f"{head}import fleet\n@fleet.stack(clusters={clusters})\ndef {name}(cluster: fleet.Cluster) -> None:\n{body}"


def names(evaluation: Evaluation) -> list[str]:
    return [one.name for one in evaluation.check().stacks]


def test_clusters_are_data(tmp_path: Path) -> None:
    result = evaluate(repository(tmp_path, {}))

    assert [one.name for one in result.clusters] == ["dev", "eu-1", "us-1"]
    dev, eu, us = result.clusters
    assert dev.pull
    assert (eu.kubeconfig_context, us.kubeconfig_context) == ("eu-1", "admin@us")
    assert us.labels == {"env": "prod"}
    assert us.source == Source("clusters/all.py", 3)
    assert result.stacks == ()


def test_a_stack_is_evaluated_for_each_of_its_clusters(tmp_path: Path) -> None:
    files = {"stacks/orders.py": stack("orders", config_map("'c'", '{"at": cluster.name}'))}

    (orders,) = evaluate(repository(tmp_path, files), twice=True).check().stacks

    assert orders.clusters == ("eu-1", "us-1")
    assert orders.rollout.waves == (("eu-1", "us-1"),)
    maps = [next(one for one in desired.objects if one.key.kind == "ConfigMap") for desired in orders.desired]
    assert [one.manifest["data"]["at"] for one in maps] == ["eu-1", "us-1"]
    assert maps[0].source == Source("stacks/orders.py", 4)
    assert [str(key) for key in maps[0].depends_on] == ["Namespace orders"]


def test_the_clusters_alone_can_be_asked_for(tmp_path: Path) -> None:
    result = evaluate(repository(tmp_path, {"stacks/a.py": "this is not Python\n"}), stacks=()).check()
    assert len(result.clusters) == 3


def test_the_parent_never_imports_user_code(tmp_path: Path) -> None:
    before = set(sys.modules)
    evaluate(repository(tmp_path, {"stacks/orders.py": stack("orders")})).check()

    assert not [name for name in set(sys.modules) - before if "orders" in name]
    assert "stacks" not in sys.modules
    assert not list(tmp_path.rglob("__pycache__"))


def test_exports_reach_the_stacks_that_read_them_and_decide_the_order(tmp_path: Path) -> None:
    files = {
        "stacks/a.py": stack("a", 'fleet.export("x", fleet.output("b", "x") + "a")'),
        "stacks/b.py": stack("b", 'fleet.export("x", fleet.output("c", "x") + "b")'),
        "stacks/c.py": stack("c", 'fleet.export("x", cluster.name)'),
    }
    result = evaluate(repository(tmp_path, files), twice=True)

    assert names(result) == ["c", "b", "a"]
    assert [one.exports["x"] for one in result.stacks[2].desired] == ["eu-1ba", "us-1ba"]
    assert result.stacks[2].needs == ("b",)


def test_a_stack_that_is_asked_for_brings_those_it_reads_from_but_does_not_show_them(tmp_path: Path) -> None:
    files = {
        "stacks/a.py": stack("a", 'fleet.export("x", fleet.output("b", "x"))'),
        "stacks/b.py": stack("b", 'fleet.export("x", "1")'),
        "stacks/c.py": stack("c", "1 / 0"),
    }
    found = repository(tmp_path, files)

    assert names(evaluate(found, stacks=["a"])) == ["a"]
    with pytest.raises(NotFoundError, match="there is no stack 'd'"):
        evaluate(found, stacks=["d"])


def test_an_export_of_a_stack_that_is_not_on_the_cluster_is_told(tmp_path: Path) -> None:
    files = {
        "stacks/a.py": stack("a", 'fleet.output("b", "x")'),
        "stacks/b.py": stack("b", 'fleet.export("x", "1")', clusters='"eu-1"'),
    }
    (problem,) = evaluate(repository(tmp_path, files)).problems

    assert problem.source == Source("stacks/a.py", 4)
    assert "stack 'b' is not on cluster 'us-1'" in problem.message
    assert "eu-1" in str(problem.hint)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    files = {
        "stacks/a.py": stack("a", "1 / 0"),
        "stacks/b.py": stack("b", "int('x')"),
        "stacks/c.py": stack("c", 'fleet.output("a", "x")'),
    }
    result = evaluate(repository(tmp_path, files))

    assert [str(problem.source) for problem in result.problems] == ["stacks/a.py:4", "stacks/b.py:4"]
    assert result.stacks == ()
    with pytest.raises(Problems, match=r"(?s)stacks/a\.py:4: .*error: stacks/b\.py:4: ") as caught:
        result.check()
    assert caught.value.exit_code == 2


def test_one_mistake_in_a_shared_file_is_one_problem(tmp_path: Path) -> None:
    files = {f"stacks/{name}.py": stack(name, head="import shared\n") for name in "abc"}
    (problem,) = evaluate(repository(tmp_path, {**files, "stacks/_x.py": "", "shared.py": "1 / 0\n"})).problems

    assert problem.source == Source("shared.py", 1)


def test_siblings_are_imported_from_root_and_stacks_and_package(tmp_path: Path) -> None:
    files = {
        "shared.py": "A = '1'\n",
        "stacks/_beside.py": "B = '2'\n",
        "stacks/team/_near.py": "C = '3'\n",
        "stacks/team/orders.py": stack(
            "orders",
            'fleet.export("x", A + B + C)',
            head="from shared import A\nfrom _beside import B\nfrom ._near import C\n",
        ),
    }
    (orders,) = evaluate(repository(tmp_path, files)).check().stacks
    assert orders.desired[0].exports == {"x": "123"}


def test_a_stack_that_a_sibling_imports_is_evaluated_once(tmp_path: Path) -> None:
    files = {
        "stacks/a.py": stack("a", 'fleet.export("x", "1")'),
        "stacks/b.py": stack("b", 'fleet.export("y", fleet.output(a, "x"))', head="from stacks.a import a\n"),
    }
    assert names(evaluate(repository(tmp_path, files))) == ["a", "b"]


def test_compiled_files_of_the_repository_are_not_believed(tmp_path: Path, any_pool: Pool) -> None:
    import py_compile

    found = repository(
        tmp_path, {"stacks/orders.py": stack("orders", 'fleet.export("x", V)', head="from v import V\n")}
    )
    (tmp_path / "v.py").write_text("V = 'lie'\n")
    py_compile.compile(
        str(tmp_path / "v.py"), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    (tmp_path / "v.py").write_text("V = 'truth'\n")

    assert evaluate(found, pool=any_pool).check().stacks[0].desired[0].exports == {"x": "truth"}
    code = SourceFileLoader("v", str(tmp_path / "v.py")).get_code("v")
    assert code is not None and "lie" in code.co_consts, "Python's own loader believes them"


def test_what_a_stack_was_made_from_is_told(tmp_path: Path) -> None:
    files = {
        "shared.py": "A = 1\n",
        "data/one.json": "{}",
        "notread.py": "",
        "stacks/orders.py": stack(
            "orders",
            "import pathlib",
            "[path.read_text() for path in pathlib.Path('data').iterdir()]",
            head="import shared\n",
        ),
        "stacks/other.py": stack("other"),
    }
    orders, other = evaluate(repository(tmp_path, files)).reads

    assert orders.file == "stacks/orders.py"
    assert orders.files == ("data/one.json", "shared.py", "stacks/orders.py")
    assert orders.directories == ("data",)
    assert (other.files, other.directories) == (("stacks/other.py",), ())


def test_code_sees_neither_credentials_nor_the_callers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("KUBECONFIG", "/somewhere")
    files = {"stacks/a.py": stack("a", "import os", 'fleet.export("names", sorted(os.environ))')}

    seen = evaluate(repository(tmp_path, files), twice=True).check().stacks[0].desired[0].exports["names"]
    assert not {"AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "HOME", "PATH"} & set(seen)


def test_code_of_others_is_refused_where_there_is_no_sandbox(tmp_path: Path) -> None:
    repository(tmp_path, {})
    others = Repository.at(tmp_path, settings=Settings(trust=Trust(code=Code.OTHERS)))
    with (
        Pool(sandbox=Sandbox(Level.NONE)) as pool,
        pytest.raises(PolicyError, match=r"in a sandbox only, .* \(level A: not asked for; level B: not asked for\)"),
    ):
        evaluate(others, pool=pool)


@pytest.mark.parametrize("weakened", [Sandbox(Level.B, loose=True), Sandbox(Level.B, frozenset({Layer.GROUP}))])
def test_code_of_others_is_refused_in_a_sandbox_that_was_weakened(tmp_path: Path, weakened: Sandbox) -> None:
    repository(tmp_path, {})
    others = Repository.at(tmp_path, settings=Settings(trust=Trust(code=Code.OTHERS)))
    with Pool(sandbox=weakened) as pool, pytest.raises(PolicyError, match=r"weakened"):
        evaluate(others, pool=pool)


def test_a_job_cannot_leave_a_defence_out_unless_the_pool_is_for_that(tmp_path: Path) -> None:
    repository(tmp_path, {"stacks/a.py": stack("a")})
    job = Job(Task.STACKS, str(tmp_path), ("stacks/a.py",), Limits(), without=(Layer.SECCOMP,))
    with Pool() as pool:
        (outcome,) = pool.run([job])
    (problem,) = answer.read_answer(job, outcome)[1]
    assert "was not run" in problem.message and "asks for less of a sandbox" in problem.message


@pytest.mark.parametrize("level", [Level.A, Level.B])
def test_code_of_others_is_evaluated_in_a_sandbox(tmp_path: Path, level: Level) -> None:
    repository(tmp_path, {"stacks/a.py": stack("a", config_map('"c"'))})
    others = Repository.at(tmp_path, settings=Settings(trust=Trust(code=Code.OTHERS)))
    with Pool(sandbox=Sandbox(level)) as pool:
        given = pool.sandbox_report()
        if given.level is not level:
            pytest.skip(f"this machine does not give level {level}: {given.why_not[level]}")
        assert names(evaluate(others, pool=pool)) == ["a"]


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("str(time.time() // 86400)", "the day"),
        ("time.strftime('%Y-%m-%d', time.gmtime())", "the day"),
        ("str(datetime.datetime.now().date())", "the local day"),
        ("str(hash('x'))", "a hash"),
        ("repr(object())", "an address"),
        ("str(os.getpid())", "a process id"),
        ("str(uuid.uuid4())", "a random id"),
        ("' '.join(os.listdir('data'))", "the order of a directory"),
        ("' '.join(path.name for path in pathlib.Path('data').glob('*'))", "the order of a glob"),
        ("secrets.token_hex(4)", "a random token"),
    ],
)
def test_what_does_not_follow_from_the_files_is_found(tmp_path: Path, expression: str, what: str) -> None:
    del what
    imports = "import datetime, os, pathlib, secrets, time, uuid\n"
    files = {
        "stacks/a.py": stack("a", config_map('"c"', f'{{"value": {expression}}}'), head=imports),
        **{f"data/{number}": "" for number in range(4)},
    }
    (problem,) = evaluate(repository(tmp_path, files), twice=True).problems

    assert problem.field == "data.value"
    assert "ConfigMap a/c in cluster eu-1 differs between two evaluations" in problem.message
    assert problem.source == Source("stacks/a.py", 5)


def test_an_object_or_an_export_or_a_failure_of_one_evaluation_only_is_found(tmp_path: Path) -> None:
    files = {
        "stacks/a.py": stack("a", "if os.environ['TZ'] == 'UTC0':", "    " + config_map('"c"'), head="import os\n"),
        "stacks/b.py": stack("b", "fleet.export('x', os.environ['TZ'])", head="import os\n"),
        "stacks/c.py": stack("c", "assert os.environ['TZ'] == 'UTC0'", head="import os\n"),
    }
    first, second, third = evaluate(repository(tmp_path, files), twice=True).problems

    assert "made in one of two evaluations only" in first.message
    assert second.field == "x"
    assert second.message.startswith("an export in cluster eu-1 differs between two evaluations")
    assert third.message.startswith("in the second of two evaluations only: AssertionError")


def test_a_stack_of_the_second_evaluation_only_and_values_of_another_type_are_found(tmp_path: Path) -> None:
    """For Python `1 == True`, and for a cluster one is a number and the other is not."""
    head = "import os\nHERE = os.environ['TZ'] == 'UTC0'\n"
    above, at, below = stack("b", "pass", head=head).partition("@fleet")
    late = f"{above}if not HERE:\n{textwrap.indent(at + below, '    ')}"
    thing = '{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "c"}, "spec": {"value": value}}'
    files = {
        "stacks/a.py": stack("a", "value = 1 if HERE else True", f"fleet.Manifest({thing})", head=head),
        "stacks/b.py": late,
    }
    first, second = evaluate(repository(tmp_path, files), twice=True).problems

    assert (first.field, "differs between two evaluations: 1, then True" in first.message) == ("spec.value", True)
    assert second.message == "the stack is there in one of two evaluations only"
    assert second.source is not None
    assert second.source.file == "stacks/b.py"


def test_what_the_code_printed_is_shown_with_its_problem_and_not_otherwise(tmp_path: Path, any_pool: Pool) -> None:
    files = {"stacks/a.py": stack("a", "print('counting', 3)", "print('\\x1b[2Jcleared')", "1 / 0")}
    (problem,) = evaluate(repository(tmp_path, files), pool=any_pool).problems

    assert problem.output == "counting 3\n�[2Jcleared"
    assert "it printed:\n    counting 3\n" in str(problem)
    assert "\x1b" not in str(problem)


def test_limits_are_those_of_the_repository_unless_given(tmp_path: Path) -> None:
    found = repository(
        tmp_path,
        {"fleet.toml": '[limits]\ntime = "3s"\n', "stacks/a.py": stack("a", "import time", "time.sleep(4)")},
    )
    (problem,) = evaluate(found).problems
    assert isinstance(problem, Problem)
    assert "took longer than 3 s" in problem.message
    assert names(evaluate(found, limits=Limits(time=20))) == ["a"]


def test_cpu_time_is_limited_too(tmp_path: Path) -> None:
    found = repository(tmp_path, {"stacks/a.py": stack("a", "while True: pass")})
    (problem,) = evaluate(found, limits=Limits(time=30, cpu=1)).problems

    assert "used more than 1 s of CPU time" in problem.message
    assert problem.source == Source("stacks/a.py", 4)


def test_a_loop_that_python_cannot_interrupt_is_ended_too(tmp_path: Path) -> None:
    body = ("import signal", "signal.signal(signal.SIGALRM, signal.SIG_IGN)", "sum(range(10**13))")
    (problem,) = evaluate(repository(tmp_path, {"stacks/a.py": stack("a", *body)}), limits=Limits(time=5)).problems

    assert "took longer than 5 s" in problem.message
    assert problem.source == Source("stacks/a.py", 6)


def test_what_a_sandbox_refuses_is_told_at_its_line_with_what_to_do(tmp_path: Path) -> None:
    files = {
        "stacks/a.py": stack("a", "open('/etc/passwd')"),
        "stacks/b.py": stack("b", "import threading", "threading.Thread(target=print).start()"),
    }
    with Pool(sandbox=Sandbox(Level.B)) as pool:
        if not pool.sandbox_report().level.confines:
            pytest.skip("this machine gives no sandbox")
        first, second = evaluate(repository(tmp_path, files), pool=pool).problems

    assert first.source == Source("stacks/a.py", 4)
    assert "Permission denied" in first.message
    assert "put into the repository what it needs" in str(first.hint)
    assert second.source == Source("stacks/b.py", 5)
    assert second.message == "a stack cannot start threads"


def test_a_stack_that_fails_once_it_knows_an_export_is_not_tried_for_ever(tmp_path: Path) -> None:
    files = {
        "stacks/a.py": stack("a", 'fleet.output("b", "x")', "while True: pass"),
        "stacks/b.py": stack("b", 'fleet.export("x", "1")'),
    }
    (problem,) = evaluate(repository(tmp_path, files), limits=Limits(time=30, cpu=1)).problems
    assert problem.source == Source("stacks/a.py", 5)


def test_a_flood_in_the_place_of_an_answer_is_stopped(tmp_path: Path, any_pool: Pool) -> None:
    body = ("import os", "for fd in range(3, 30):", "    try:", "        for _ in range(9): os.write(fd, b'x' * 2**20)")
    found = repository(tmp_path, {"stacks/a.py": stack("a", *body, "    except OSError: pass")})
    (problem,) = evaluate(found, limits=Limits(result=2**20), pool=any_pool).problems

    assert "the result has more than the 1048576 bytes allowed" in problem.message
    assert problem.source == Source("stacks/a.py", 2)
    (problem,) = evaluate(found, limits=Limits(result=2**25), pool=any_pool).problems
    assert "is no result" in problem.message, "without the limit all of it is read"


def test_an_answer_that_user_code_wrote_is_not_believed(tmp_path: Path, any_pool: Pool) -> None:
    forged = '{"stacks":[],"declared":[]}'
    body = (
        "import os",
        "for fd in range(3, 30):",
        f"    try: os.write(fd, b'{forged}\\n')",
        "    except OSError: pass",
    )
    (problem,) = evaluate(repository(tmp_path, {"stacks/a.py": stack("a", *body)}), pool=any_pool).problems

    assert "is no result" in problem.message
    job = Job(Task.STACKS, str(tmp_path), ("stacks/a.py",), Limits())
    assert answer.read_answer(job, WorkerOutcome(f"{forged}\n".encode(), b"")) == (WorkerAnswer(), ()), (
        "alone it would have been believed"
    )


def test_clusters_in_no_wave_come_last_and_are_known_as_such(tmp_path: Path) -> None:
    waves = 'fleet.where(env="prod"), rollout=fleet.Rollout(waves=[{}])'
    files = {
        "stacks/some.py": stack("some", clusters=waves.format("'us-1'")),
        "stacks/whole.py": stack("whole", clusters=waves.format("'us-1', 'eu-1'")),
        "stacks/plain.py": stack("plain"),
    }
    found = {one.name: one.rollout for one in evaluate(repository(tmp_path, files)).check().stacks}
    assert (found["some"].waves, found["some"].rest) == ((("us-1",), ("eu-1",)), True)
    assert (found["whole"].waves, found["whole"].rest) == ((("us-1",), ("eu-1",)), False)
    assert not found["plain"].rest
