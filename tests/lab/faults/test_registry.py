"""A fault is one file and one line: commands, builders, fixtures and schedules have what is declared once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Annotated, Any

import jedi
import pytest

from docs.tools.reference.faults import STUB_FILE, derived_methods, stub_text
from fleet.cli import run
from fleet.cli.commands.lab.fault import fault as fault_group
from fleet.cli.commands.lab.verbs import make_command
from fleet.errors import ConfigurationError
from fleet.lab import Lab
from fleet.lab.faults import ActiveFault, Facts, Fault, Kind, list_active, registry
from fleet.lab.faults.fault import expect_target
from fleet.lab.faults.registry import FAULTS, list_verbs, load_kind, load_verb, load_verbs
from fleet.lab.faults.schedule import Schedule
from fleet.lab.faults.verb import RESERVED, Draw, FaultBuilder, FaultVerb, Option, TargetName, TargetScope
from fleet.lab.programs import process
from fleet.lab.spec import ClusterSpec, LabSpec
from fleet.testing import Cluster, Faults

STORED = """
    kill-pod freeze-pod kill-node stop-node freeze-node lose-node kill-program freeze-program partition disturb
    fill-volume corrupt-volume lose-volume fail-api slow-api forget-api skew-leases
"""


class ShakeNode(Kind):
    """A fault that only this file knows."""

    def resolve(self, lab: Lab, fault: Fault) -> Facts:
        return {"mark": f"{fault.targets[0]} by {fault.options['strength']:g}"}

    def begin(self, lab: Lab, active: ActiveFault) -> None:
        (lab.directory / "shaken").write_text(active.facts["mark"])

    def end(self, lab: Lab, active: ActiveFault) -> None:
        (lab.directory / "shaken").unlink(missing_ok=True)


def shake(
    scope: TargetScope,
    target: TargetName,
    *,
    strength: Annotated[float, Option("How hard, from 1 to 9.", show_default=True)] = 5,
    rest: Annotated[float, Option("How long it stands between.", is_duration=True)] = 0,
    deep: Annotated[bool, Option("The rack as well.", flags=("-d", "--deep"))] = False,
) -> Fault:
    """Shake a node. It stands still again when the fault is cleared."""
    node = expect_target(target, scope.namespace, "shake", "node")
    return Fault("shake-node", scope.cluster, (str(node),), {"strength": strength, "rest": rest, "deep": deep})


SHAKE = FaultVerb(
    shake,
    kinds={"shake-node": ShakeNode},
    draws=(
        Draw(("node",), lambda scope, target, chance: shake(scope, target, strength=chance.randint(1, 9))),
        Draw(
            ("node",), lambda scope, target, chance: shake(scope, target, strength=9), name="topple", is_default=False
        ),
    ),
)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab without a running program, and the fault above with its one line."""
    monkeypatch.setenv("FLEET_STATE_DIR", str(tmp_path))
    monkeypatch.setitem(registry.FAULTS, "shake", (f"{__name__}:SHAKE", "Shake a node."))
    spec = LabSpec("still", (ClusterSpec("c", "simulated", 0, {}),))
    spec.save()
    yield Lab(spec)
    process.stop(spec.directory)


def test_a_fault_declared_here_is_a_command_with_its_options(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "fault", "--help"]) == 0
    assert re.search(r"\n  run .*\n.*\n  shake +Shake a node\.\n", capsys.readouterr().out)
    assert run(["lab", "fault", "shake", "--help"]) == 0
    help_text = capsys.readouterr().out
    assert "fleet lab fault shake [OPTIONS] TARGET\n" in help_text
    assert "Shake a node. It stands still again when the fault is cleared." in help_text
    assert re.search(r"--strength FLOAT +How hard, from 1 to 9\.  \[default: 5\]", help_text)
    assert re.search(r"--rest DURATION +How long it stands between\.\n", help_text)
    assert re.search(r"-d, --deep +The rack as well\.\n", help_text)
    arguments = ["node/n", "--strength", "7.5", "--rest", "1m", "-d"]
    assert run(["lab", "fault", "shake", "--name", "still", *arguments]) == 0
    assert "fault 1: shake-node node/n strength=7.5 rest=60.0 deep=True; undo it" in capsys.readouterr().err
    assert (lab.directory / "shaken").read_text() == "node/n by 7.5"
    assert run(["lab", "fault", "clear", "1", "--name", "still"]) == 0
    assert not (lab.directory / "shaken").exists()
    assert run(["lab", "fault", "shake", "--name", "still", "pod/x"]) != 0
    assert "shake is for a node" in capsys.readouterr().err


def test_a_fault_declared_here_is_a_method_of_builders_and_fixtures(lab: Lab) -> None:
    builder: Any = FaultBuilder("c")
    shaken = {"strength": 2, "rest": 0, "deep": False}
    assert builder.shake("node/n", strength=2) == Fault("shake-node", "c", ("node/n",), shaken)
    assert "shake" in dir(builder)
    faults: Any = Faults(Cluster(lab, "c", "default"))
    with faults.shake("node/n", strength=2) as broken:
        assert [active.fault for active in list_active(lab)] == [broken.fault] == [builder.shake("node/n", strength=2)]
        assert (lab.directory / "shaken").read_text() == "node/n by 2"
    assert list_active(lab) == []
    assert not (lab.directory / "shaken").exists()
    timed = faults.shake("node/n", seconds=600)
    (active,) = list_active(lab)
    assert active.until == pytest.approx(active.since + 600)
    timed.clear()
    with pytest.raises(TypeError, match="strenght"):
        faults.shake("node/n", strenght=2)


def test_a_fault_declared_here_is_drawn_by_chance(lab: Lab) -> None:
    schedule = Schedule(3, "c", ("node/n",), length=600, only=("shake",))
    assert {event.fault.kind for event in schedule.events()} == {"shake-node"}
    assert len({event.fault.options["strength"] for event in schedule.events()}) > 3
    by_default = {event.fault.kind for event in Schedule(3, "c", ("node/n",), length=2000).events()}
    assert {"shake-node", "freeze-node", "kill-node"} <= by_default
    toppled = Schedule(3, "c", ("node/n",), length=600, only=("topple",)).events()
    assert {event.fault.options["strength"] for event in toppled} == {9}


def test_without_its_line_there_is_no_such_fault() -> None:
    builder: Any = FaultBuilder("c")
    with pytest.raises(AttributeError, match="'FaultBuilder' object has no attribute 'shake'"):
        builder.shake("node/n")
    with pytest.raises(ConfigurationError, match="there is no fault 'shake-node'") as caught:
        load_kind("shake-node")
    assert "kill-pod, kill-node, kill-program, freeze-pod" in str(caught.value)


@pytest.mark.parametrize("name", STORED.split())
def test_every_name_that_was_ever_stored_finds_its_kind(name: str) -> None:
    assert isinstance(load_kind(name), Kind)


def test_each_line_of_the_table_says_what_its_verb_is_and_what_its_help_says() -> None:
    for key, (_, line) in FAULTS.items():
        group, _, name = key.rpartition(" ")
        verb = load_verb(name, group)
        assert verb.name == name
        assert make_command(verb).get_short_help_str(100).rstrip(".") == line.rstrip(".")
        assert verb.kinds and all(kind.partition("-")[0] == name for kind in verb.kinds)


def test_the_list_of_faults_and_its_completion_load_no_lab() -> None:
    light = {"fleet.lab", "fleet.lab.faults", "fleet.lab.faults.registry"}
    result = _run_command("fleet", "lab", "fault", "--help")
    assert "  partition  Let no packet through" in result.stdout
    assert _lab_modules(result.stderr) == light
    words = {"_FLEET_COMPLETE": "bash_complete", "COMP_WORDS": "fleet lab fault f", "COMP_CWORD": "3"}
    result = _run_command("fleet", **words)
    assert result.stdout.split() == ["plain,fill", "plain,freeze"]
    assert _lab_modules(result.stderr) == light


def _run_command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process that prints at its end what it has loaded."""
    code = "import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    code += f"sys.argv = {list(arguments)}\nfrom fleet.cli import main\nmain()"
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)


def _lab_modules(text: str) -> set[str]:
    return {name for name in text.split() if name == "fleet.lab" or name.startswith("fleet.lab.")}


def test_no_verb_takes_the_name_of_something_else() -> None:
    taken = {name for cls in (Faults, FaultBuilder) for name in vars(cls)} | set(fault_group.commands) | {"cluster"}
    assert taken.isdisjoint(list_verbs())
    for verb in load_verbs():
        assert RESERVED.isdisjoint(parameter.name for parameter in verb.parameters()), verb.name


def test_every_draw_makes_a_fault_of_its_verb() -> None:
    for verb in load_verbs():
        for draw in verb.draws:
            for thing in draw.things:
                target = {"program": "kube-apiserver"}.get(thing, f"{thing}/default/x" if thing != "node" else "node/x")
                assert draw.make(TargetScope("lab"), target, Random(1)).kind in verb.kinds


def test_the_stub_that_type_checkers_read_is_that_of_the_verbs() -> None:
    assert STUB_FILE.read_text(encoding="utf-8") == stub_text(), "run `make docs`"
    for cls in (FaultBuilder, Faults):
        assert [method.__name__ for method in derived_methods(cls)] == list(list_verbs())


def test_a_type_checker_knows_the_arguments_of_a_fixture(tmp_path: Path) -> None:
    right = "from fleet.testing import Broken, Faults\nfrom fleet.testing.proxy import Match\n\n"
    right += "def use(faults: Faults) -> Broken:\n    faults.kill('pod/web-0', process='redis', seconds=3.5)\n"
    right += "    with faults.disturb(['node/n'], ['kube-apiserver'], delay=0.1, one_way=True):\n"
    right += "        return faults.api.fail(429, Match(resource='pods'), share=0.5)\n"
    wrong = "\ndef misuse(faults: Faults) -> None:\n    faults.kill(7)\n    faults.explode('pod/web-0')\n"
    wrong += "    faults.api.slow(0.5, seconds='1')\n    faults.fill('volume/data', leaves=1)\n"
    (tmp_path / "use_of_faults.py").write_text(right + wrong)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--hide-error-codes", "--no-error-summary"]
    cache = Path(__file__).parents[3] / ".mypy_cache" / "stacks"
    result = subprocess.run(
        [*command, f"--cache-dir={cache}", str(tmp_path / "use_of_faults.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line.partition(": error: ")[2] for line in result.stdout.splitlines() if ": error: " in line]
    assert errors == [
        'Argument 1 to "kill" of "FixtureMethods" has incompatible type "int"; expected "str"',
        '"Faults" has no attribute "explode"',
        'Argument "seconds" to "slow" of "ApiFixtureMethods" has incompatible type "str"; expected "float | None"',
        'Unexpected keyword argument "leaves" for "fill" of "FixtureMethods"; did you mean "leave"?',
    ], result.stdout


def test_an_editor_completes_the_methods_of_a_fixture_and_shows_their_arguments() -> None:
    text = "from fleet.testing import Faults\ndef use(faults: Faults) -> None:\n    faults."
    script = jedi.Script(
        text, path=Path(__file__).parent / "edited.py", project=jedi.Project(Path(__file__).parents[3])
    )
    assert set(list_verbs()) <= {completion.name for completion in script.complete(3, 11)}
    script = jedi.Script(text + "kill(", path=Path(__file__).parent / "edited.py")
    (signature,) = script.get_signatures(3, 16)
    assert [parameter.name for parameter in signature.params] == ["target", "container", "process", "seconds"]
    assert signature.docstring().endswith(load_verb("kill").summary)
