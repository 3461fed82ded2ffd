"""Further attacks on whoever reads what others wrote: each is refused with a reason, or read in time that is bounded.

Each is a program in a process of its own with little CPU time and memory, so one that succeeds ends that process only.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleet.evaluate.answer import read_answer
from fleet.evaluate.pool import WorkerOutcome
from tests.evaluate.test_answer import JOB, declaring, result, rolled

CPU, MEMORY = 10, 1 << 30  # seconds and bytes; what is bounded takes a tenth of both

KUBECONFIG = """
import sys
from pathlib import Path
from fleet.errors import FleetError
from fleet.kube.client.kubeconfig import read_kubeconfig as read
USUAL = "contexts: [{name: c, context: {cluster: k}}]\\nclusters: [{name: k, cluster: {}}]\\n"
def bomb(name, leaf, form):
    levels = "".join(f"{name}{n}: &{name}{n} {form(f'*{name}{n - 1}')}\\n" for n in range(1, 10))
    return f"{name}0: &{name}0 {leaf}\\n{levels}"
def listed(one): return "[" + ",".join([one] * 10) + "]"
def merged(one): return "{<<: " + listed(one) + "}"
def refused(text):
    Path("config").write_text(text)
    try:
        read(Path("config"))
    except FleetError as problem:
        assert len(str(problem)) < 1000, len(str(problem))
        print("refused")
"""

# What must come out of each is its last line.
PROGRAMS: dict[str, tuple[str, str]] = {
    "a kubeconfig whose cluster's name unfolds": (
        KUBECONFIG
        + 'refused(bomb("x", "a", listed) + "current-context: c\\ncontexts: [{name: c, context: {cluster: *x9}}]\\n")',
        "refused",
    ),
    "a kubeconfig whose current context unfolds": (
        KUBECONFIG + 'refused(bomb("x", "a", listed) + "current-context: *x9\\n" + USUAL)',
        "refused",
    ),
    "a kubeconfig with two names that unfold and are compared": (
        KUBECONFIG
        + 'two = bomb("x", "a", listed) + bomb("y", "a", listed)\n'
        + 'refused(two + "current-context: *x9\\ncontexts: [{name: *y9}]\\n")',
        "refused",
    ),
    "a kubeconfig with merge keys that multiply": (
        KUBECONFIG + 'refused(bomb("x", "{a: 1}", merged) + "current-context: c\\n" + USUAL)',
        "refused",
    ),
    "a kubeconfig with merge keys of nothing that multiply": (
        KUBECONFIG + 'refused(bomb("x", "{}", merged) + "current-context: c\\n" + USUAL)',
        "refused",
    ),
    "a kubeconfig of brackets, to end the process in C": (KUBECONFIG + 'refused("a: " + "[" * 400_000)', "refused"),
    "a kubeconfig of dashes, to end the process in C": (KUBECONFIG + 'refused("- " * 200_000 + "a")', "refused"),
    "a kubeconfig with a number of 5,000 digits": (
        KUBECONFIG + "refused(f\"x: {'9' * 5000}\\ncurrent-context: nobody\\n\" + USUAL)",
        "refused",
    ),
    "a kubeconfig with a day that no month has": (
        KUBECONFIG + 'refused("x: 2024-99-99\\ncurrent-context: nobody\\n" + USUAL)',
        "refused",
    ),
    "a manifest of brackets": (
        "from fleet.yaml_text import NotYamlError, read_documents\n"
        "try:\n    list(read_documents('a: ' + '[' * 400_000))\n"
        "except NotYamlError as problem:\n    print(problem.problem)",
        "nested more than 100 deep",
    ),
    "JSON with 50,000 keys and the last one twice": (
        "from fleet.yaml_text import NotYamlError, read_documents\n"
        "text = '{' + ','.join(f'\"k{n}\":1' for n in range(50_000)) + ',\"k49999\":2}'\n"
        "try:\n    list(read_documents(text))\nexcept NotYamlError as problem:\n    print(problem.problem)",
        "key 'k49999' is there twice",
    ),
    "a lockfile of spaces": (
        "from fleet.errors import ConfigurationError\nfrom fleet.repository.lockfile import read_lock\n"
        "for text in ('a' + ' ' * 60_000 + 'x', 'a==1' + ' ' * 60_000 + 'x', 'a==1;' + ' ' * 60_000 + '@'):\n"
        "    try:\n        read_lock('lock', text)\n    except ConfigurationError:\n        print('refused')",
        "refused\nrefused\nrefused",
    ),
    "a message of addresses, to look for passwords in": (
        "from fleet.text import without_credentials\n"
        "for part in ('://', '://a:', '://a/'):\n    assert without_credentials(part * 50_000) == part * 50_000\n"
        "print(len(without_credentials('x ' * 50_000 + 'https://me:se/c@ret@host/' + 'x' * 500_000)))",
        str(100_000 + len("https://host/") + 500_000),
    ),
    "settings that no clock and no kernel can work with": (
        "from fleet.errors import ConfigurationError\nfrom fleet.repository.settings import read_settings\n"
        "big = '9' * 20\n"
        "for text in (f'[limits]\\ntime=\"{big}w\"', '[limits]\\nmemory=\"999999999999999Gi\"', "
        "f'[budget]\\ndeletions=0x{big}', f'[budget]\\ndeletions=0x{big * 3000}'):\n"
        "    try:\n        read_settings(text)\n    except ConfigurationError:\n        print('refused')",
        "refused\nrefused\nrefused\nrefused",
    ),
}


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.mark.parametrize(("program", "said"), PROGRAMS.values(), ids=PROGRAMS)
def test_what_others_wrote_is_refused_within_bounds(program: str, said: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        preexec_fn=_bounded,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, said), ended.stderr[-2000:]


BINDING = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "b"}}
FORGED: dict[str, Any] = {
    "objects inside of one that kubectl takes for a list": declaring(manifest={"items": [BINDING]}),
    "the same in other letters": declaring(manifest={"Items": [BINDING]}),
    "a list of nothing": declaring(manifest={"items": None}),
    "a time zone that is a directory": rolled(timezone="America"),
    "a time zone that no path can be": rolled(timezone="a\0b"),
    "a time zone that no name can be": rolled(timezone="x" * 70_000),
    "a time zone that is another file": rolled(timezone="tzdata.zi"),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_answer_is_an_error_of_that_file(forged: dict[str, Any]) -> None:
    def problems(data: Any) -> int:
        return len(read_answer(JOB, WorkerOutcome(b'{"at":["stacks/a.py",7]}\n' + orjson.dumps(data) + b"\n", b""))[1])

    assert problems(result()) == 0
    assert problems(forged) == 1
