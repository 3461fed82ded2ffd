"""The control group around an evaluation: where it can be had, what it holds, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fleet.evaluate import Pool
from fleet.evaluate.sandbox import cgroup
from fleet.evaluate.sandbox.cgroup import CgroupPlace, WorkerCgroup, needed_limits, places
from fleet.evaluate.sandbox.level import Layer, Level, Sandbox

HYBRID = """\
4:memory:/process/626f
8:pids:/
0::/
"""
MOUNTS_HYBRID = """\
24 1 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw
28 24 0:25 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 24 0:29 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
33 24 0:30 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 24 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
SESSION = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope\n"
MOUNTS_UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
CONTAINER = "12:pids:/docker/ab12\n11:memory:/docker/ab12\n"
MOUNTS_CONTAINER = (
    "41 40 0:29 /docker/ab12 /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n"
    "42 40 0:25 /docker/ab12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)


def test_groups_are_found_where_the_kernel_mounts_them() -> None:
    assert places(HYBRID, MOUNTS_HYBRID) == [
        CgroupPlace("/sys/fs/cgroup/memory/process/626f", ("memory",), 1),
        CgroupPlace("/sys/fs/cgroup/pids", ("pids",), 1),
    ]
    (session,) = places(SESSION, MOUNTS_UNIFIED)
    assert session.directory.endswith("/app.slice/terminal.scope")
    assert (session.controllers, session.version) == (("memory", "pids"), 2)
    assert {place.directory for place in places(CONTAINER, MOUNTS_CONTAINER)} == {
        "/sys/fs/cgroup/pids",
        "/sys/fs/cgroup/memory",
    }
    assert places("", MOUNTS_UNIFIED) == places(SESSION, "") == []


def test_limits_are_written_as_each_version_wants_them(tmp_path: Path) -> None:
    memory, tasks = needed_limits(2, 1 << 30)
    assert (memory, tasks) == ((2 << 30) + cgroup.BASE_MEMORY, cgroup.BASE_TASKS + 2 * cgroup.TASKS)
    old, new = tmp_path / "old", tmp_path / "new"
    for directory, names in (
        (old, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")),
        (new, ("cgroup.type", "memory.max", "memory.swap.max", "pids.max")),
    ):
        directory.mkdir()
        for name in names:
            (directory / name).write_text("")
    WorkerCgroup((str(old), str(new))).limit(memory, tasks)
    assert (
        (old / "memory.limit_in_bytes").read_text() == (old / "memory.memsw.limit_in_bytes").read_text() == str(memory)
    )
    assert [(new / f"{name}.max").read_text() for name in ("memory", "memory.swap", "pids")] == [
        str(memory),
        "0",
        str(tasks),
    ]


def _needs_a_group(pool: Pool) -> tuple[Path, ...]:
    given = pool.sandbox_report()
    if not given.group:
        assert given.why_no_group, "never without a reason"
        pytest.skip(f"this machine gives no control group: {given.why_no_group}")
    return tuple(map(Path, given.places))


@pytest.mark.parametrize("level", list(Level))
def test_a_zygote_is_in_a_group_at_every_level_and_leaves_none(level: Level) -> None:
    with Pool(sandbox=Sandbox(level)) as pool:
        directories = _needs_a_group(pool)
        for directory in directories:
            (pid,) = (directory / "cgroup.procs").read_text().split()
            assert "fleet.evaluate.worker.zygote" in Path(f"/proc/{pid}/cmdline").read_text()
            assert directory.name.startswith(f"fleet-{pid}-")
    assert not any(directory.exists() for directory in directories)


def test_a_group_is_not_asked_for_where_it_is_left_out() -> None:
    with Pool(sandbox=Sandbox(Level.B, frozenset({Layer.GROUP}))) as pool:
        assert (pool.sandbox_report().group, pool.sandbox_report().why_no_group) == ("", "not asked for")


def test_what_a_killed_command_leaves_is_swept_by_the_next() -> None:
    with Pool() as pool:
        (first, *_) = _needs_a_group(pool)
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    left, living = first.parent / f"fleet-{gone}-00", first.parent / f"fleet-{os.getpid()}-00"
    left.mkdir()
    living.mkdir()
    try:
        with Pool() as pool:
            pool.sandbox_report()
        assert not left.exists()
        assert living.exists()
    finally:
        living.rmdir()


def test_trying_leaves_nothing() -> None:
    what, why_not = cgroup.try_cgroup()
    assert bool(what) != bool(why_not)


def test_a_group_is_made_beside_our_own_where_groups_with_processes_have_none_below(tmp_path: Path) -> None:
    """On the kernel's own version 2, with a controller that nobody uses here: memory may be held by version 1."""
    top = next((Path(place) for place in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") if _free(place)), None)
    if top is None or os.geteuid() != 0:
        pytest.skip("there is no version 2 to try it in")
    controller = _free(str(top))
    above = top / f"fleet-test-{os.getpid()}"
    pid = os.fork()
    if pid == 0:
        signal.pause()
    name = f"fleet-{pid}-00"
    try:
        (above / "own").mkdir(parents=True)
        (top / "cgroup.subtree_control").write_text(f"+{controller}")
        (above / "own/cgroup.procs").write_text(str(pid))
        made = cgroup._make_group(CgroupPlace(str(above / "own"), (controller,), 2), name, pid)
        assert Path(made) == above / name
        assert (above / name / "cgroup.procs").read_text().split() == [str(pid)]
        assert f"/{above.name}/{name}\n" in Path(f"/proc/{pid}/cgroup").read_text()
        assert (above / name / f"{controller}.2MB.max").exists() or controller != "hugetlb"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for directory in (above / name, above / "own", above):
            directory.rmdir()


def _free(top: str) -> str:
    """A controller of version 2 with which nothing is limited here."""
    file = Path(top, "cgroup.controllers")
    return next((one for one in ("hugetlb", "misc", "rdma") if file.exists() and one in file.read_text().split()), "")


def test_a_reason_is_given_where_groups_cannot_be_made(tmp_path: Path) -> None:
    place = CgroupPlace(str(tmp_path / "own"), ("memory", "pids"), 2)
    (tmp_path / "own").mkdir()
    pid = os.fork()
    if pid == 0:
        signal.pause()
    try:
        with pytest.raises(OSError, match=r"cgroup\.subtree_control"):
            cgroup._make_group(place, "fleet-1-00", pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert [one.name for one in tmp_path.rglob("*")] == ["own"]
