"""The parts of the sandbox by themselves: the assembler, the tables, the ladder; and a user who is not root."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.evaluate.sandbox import seccomp as calls
from fleet.evaluate.sandbox.kernel import NUMBERS, Machine
from fleet.evaluate.sandbox.landlock import FileAccess, handled_access
from fleet.evaluate.sandbox.level import LAYERS, Layer, Level, Sandbox, SandboxReport
from fleet.evaluate.sandbox.mounts import Mounts, installed_mounts
from fleet.evaluate.sandbox.seccomp import ALLOW, ERROR, KILL, Argument, SyscallRule, assemble, program

X86, ARM = 0xC000003E, 0xC00000B7
MACHINES: list[Machine] = ["x86_64", "aarch64"]


def outcome(code: bytes, number: int, *arguments: int, architecture: int = X86) -> int:
    """What the kernel would do: run the program on a system call, as classic BPF is defined."""
    data = struct.pack("<iIQ6Q", number, architecture, 0, *arguments, *(0,) * (6 - len(arguments)))
    steps = list(struct.iter_unpack("=HBBI", code))
    at, accumulator = 0, 0
    while True:
        operation, then, otherwise, value = steps[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:
                accumulator &= value
            case 0x15:
                at += then if accumulator == value else otherwise
            case 0x35:
                at += then if accumulator >= value else otherwise
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"no such step: {operation:#x}")


REFUSED = ERROR | errno.EPERM


def test_a_rule_allows_its_call_and_no_other() -> None:
    code = program(X86, errno.EPERM, [SyscallRule(1), SyscallRule(3)])
    assert [outcome(code, number) for number in range(5)] == [REFUSED, ALLOW, REFUSED, ALLOW, REFUSED]


def test_conditions_look_at_all_bits_unless_masked() -> None:
    code = program(X86, errno.EPERM, [SyscallRule(1, (Argument(0, (5, 7)), Argument(2, (0,), 0xF0)))])
    assert outcome(code, 1, 5, 99, 0x0F) == outcome(code, 1, 7) == ALLOW
    for arguments in ((6,), (5 + (1 << 32),), (5, 0, 0x10), (7, 0, 0xFF)):
        assert outcome(code, 1, *arguments) == REFUSED


def test_a_second_rule_for_the_same_call_is_an_alternative() -> None:
    code = program(
        X86, errno.EPERM, [SyscallRule(1, (Argument(0, (5,)),)), SyscallRule(1, (Argument(0, (6,)),)), SyscallRule(2)]
    )
    assert [outcome(code, 1, value) for value in (5, 6, 7)] == [ALLOW, ALLOW, REFUSED]
    assert outcome(code, 2) == ALLOW


def test_another_architecture_kills_and_so_does_x32() -> None:
    code = program(X86, errno.EPERM, [SyscallRule(1)], assemble([], {4: errno.ENOSYS}))
    assert outcome(code, 1, architecture=ARM) == KILL
    assert outcome(code, 0x40000001) == KILL
    assert outcome(code, 4) == ERROR | errno.ENOSYS
    assert outcome(program(ARM, errno.EPERM, [SyscallRule(1)]), 1, architecture=ARM) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_knows_what_may_be_done(machine: Machine) -> None:
    numbers = NUMBERS[machine]

    def may(name: str, *arguments: int, writing: bool = False) -> bool:
        code = calls.confine_arguments(machine, 7, writing=writing)
        return outcome(code, numbers[name], *arguments, architecture=calls.ARCHITECTURES[machine]) == ALLOW

    here = (1 << 64) - 100  # AT_FDCWD, as the C library passes it
    assert may("read", 3)
    assert may("openat", here, 0, os.O_RDONLY | os.O_CLOEXEC)
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_CREAT):
        assert not may("openat", here, 0, flags)
        assert may("openat", here, 0, flags, writing=True)
    assert not may("unlinkat", here, 0)
    assert may("fcntl", 3, 3) and not may("fcntl", 3, 8)  # F_GETFL, F_SETOWN
    assert may("ioctl", 0, 0x5401) and not may("ioctl", 0, 0x5412)  # TCGETS, TIOCSTI
    assert may("tgkill", 7, 7, 6) and not may("tgkill", 8, 8, 6)
    assert may("prlimit64", 0, 7, 0, 1) and not may("prlimit64", 0, 7, 1, 0) and not may("prlimit64", 9, 7, 0, 1)
    for name in ("prctl", "unshare", "mount", "seccomp", "capset", "clone3", "openat2"):
        assert not may(name, writing=True)
    assert len(calls.confine_arguments(machine, 7, writing=True)) // 8 < 4096  # the kernel takes no longer ones


@pytest.mark.parametrize(
    ("machine", "header"),
    [("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "/usr/include/asm-generic/unistd.h")],
)
def test_numbers_are_those_of_the_kernels_headers(machine: Machine, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"there is no {header} here")
    text = Path(header).read_text()
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
    known |= {new: known[old] for new, old in re.findall(r"#define __NR_(\w+) __NR3264_(\w+)", text) if old in known}
    assert {name: int(known[name]) for name in NUMBERS[machine]} == NUMBERS[machine]
    names = {*calls.FREE, *calls.WRITING, "open", "openat", "fcntl", "ioctl", "prlimit64", "tgkill", *calls.UNKNOWN}
    assert {name for name in names if name in known} <= NUMBERS[machine].keys(), "one that is meant and not listed"


def test_landlock_forbids_all_that_its_version_knows() -> None:
    assert handled_access(1) == (FileAccess((1 << 13) - 1), 0, 0)
    assert handled_access(3) == (FileAccess((1 << 15) - 1), 0, 0)
    assert handled_access(5) == (FileAccess((1 << 16) - 1), 3, 0)
    assert handled_access(7) == (FileAccess((1 << 16) - 1), 3, 3)


def test_a_tree_is_granted_without_what_is_hidden_in_it(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "out").symlink_to("/etc")
    root = str(tmp_path)
    view = Mounts(())
    whole = dict(view.grant_paths(root, writing=False))
    assert whole[root] == FileAccess.READ_FILE | FileAccess.READ_DIR
    (tmp_path / ".git").mkdir()
    parts = dict(view.grant_paths(root, writing=False))
    assert parts[root] == FileAccess.READ_DIR
    assert f"{root}/stacks" in parts
    assert f"{root}/.git" not in parts and f"{root}/out" not in parts


def test_what_is_installed_is_no_persons() -> None:
    paths = installed_mounts().installed
    assert any(Path(sysconfig.get_path("stdlib")).is_relative_to(path) for path in paths)
    for private in ("/", "/etc", "/home", "/root", "/proc", str(Path.home()), str(Path(__file__).parents[3])):
        assert private not in paths


def test_levels_are_what_they_say() -> None:
    assert LAYERS[Level.A] > LAYERS[Level.B] > LAYERS[Level.NONE]
    assert {Layer.LANDLOCK, Layer.SECCOMP, Layer.MEMORY} <= LAYERS[Level.B]
    assert [level.confines for level in Level] == [True, True, False]
    given = SandboxReport(Level.B, {Level.A: "no user namespaces"})
    assert SandboxReport.of(json.loads(json.dumps(given.data()))) == given
    asked = Sandbox(Level.B, frozenset({Layer.SECCOMP}))
    assert Sandbox.of(json.loads(json.dumps(asked.data()))) == asked


def test_nothing_but_tests_can_weaken_a_sandbox() -> None:
    """A command, a setting or a variable would have to make one, and none does: there is one place that takes any."""
    package = Path(calls.__file__).parents[2]
    texts = {path.name: path.read_text() for path in package.rglob("*.py")}
    assert [name for name, text in texts.items() if re.search(r"\bSandbox\((?!\))", text)] == []
    assert [name for name, text in texts.items() if re.search(r"\bloose=", text)] == ["zygote.py"]  # as it was started
    jobs = [name for name, text in texts.items() if re.search(r"\bJob\(", text)]
    assert jobs and not [name for name in jobs if "without=" in texts[name]]
    assert not Sandbox().is_weakened


SCRIPT = """
import sys
from pathlib import Path
from fleet.evaluate import Pool, evaluate
from fleet.evaluate.sandbox.level import Level, Sandbox
from fleet.repository import Repository
for level in (Level.A, Level.B):
    with Pool(sandbox=Sandbox(level)) as pool:
        evaluation = evaluate(Repository.at(Path(sys.argv[1])), pool=pool).check()
        print(pool.sandbox_report().level, evaluation.stacks[0].desired[0].exports["who"])
"""
STACK = """
import fleet
@fleet.stack(clusters="eu-1")
def a(cluster):
    import os
    who = f"{os.getuid()} {os.getpid() == 1}"
    try:
        os.listdir("/etc")
        who += " free"
    except OSError:
        who += " confined"
    fleet.export("who", who)
"""


@pytest.fixture
def tree_of_nobody() -> Iterator[Path]:
    """One that an ordinary user has; pytest's own directories are root's alone."""
    top = Path(tempfile.mkdtemp())
    try:
        for name, text in {
            "fleet.toml": "",
            "clusters/all.py": "import fleet\nfleet.Cluster('eu-1')\n",
            "stacks/a.py": STACK,
        }.items():
            (top / name).parent.mkdir(exist_ok=True)
            (top / name).write_text(text)
        for path in (top, *top.rglob("*")):
            os.chown(path, 65534, 65534)
        yield top
    finally:
        shutil.rmtree(top)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become somebody else")
def test_an_ordinary_user_has_the_same_sandbox(tree_of_nobody: Path) -> None:
    packages = [sysconfig.get_path("purelib"), str(Path(__file__).parents[3])]
    someone = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"PYTHONPATH={':'.join(packages)}"]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        known = subprocess.run([*someone, python, "-Pc", "import orjson, fleet"], capture_output=True, check=False)
        if known.returncode == 0:
            break
    else:
        pytest.skip("no Python with these packages that an ordinary user could run")

    command = [*someone, python, "-Pc", SCRIPT, str(tree_of_nobody)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines() == ["A 65534 True confined", "B 65534 False confined"], done.stderr
