"""What real etcds say when they are started on data that is of no use, cut off as a kubelet cuts it, is understood.

And what they say of data that is good and cannot be got at is not taken for that.
"""

from __future__ import annotations

import datetime
import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fleet.apps.etcd import Etcd
from fleet.apps.etcd.engine.faults import find_spoiled_data
from fleet.apps.etcd.engine.observe import EtcdObservation, make_observation
from fleet.kit.members import Ledger
from fleet.kit.observe.world import World
from tests.operator.etcd.processes import WITH_TOOLS, EtcdCluster, programs

MESSAGE = 2048  # bytes of a log that a kubelet keeps as last words


def _scribble(file: Path, begin: int, length: int, seed: int = 1) -> None:
    content = bytearray(file.read_bytes())
    content[begin : begin + length] = random.Random(seed).randbytes(length)
    file.write_bytes(content)


def _wal(member: Path) -> Path:
    return min((member / "wal").glob("*.wal"))


def _garbage_in_the_log(member: Path) -> None:
    content = bytearray(_wal(member).read_bytes())
    content[64 : 64 + 4096] = b"\xa5" * 4096
    _wal(member).write_bytes(content)


def _log_without_a_beginning(member: Path) -> None:
    _scribble(_wal(member), 0, 64)


def _empty_log(member: Path) -> None:
    os.truncate(_wal(member), 0)


def _garbage_in_the_database(member: Path) -> None:
    _scribble(member / "snap" / "db", 0, 12288)


def _garbage_in_pages(member: Path) -> None:
    """All of them: which are in use depends on when etcd wrote, and it starts with garbage in one that is not."""
    database = member / "snap" / "db"
    _scribble(database, 8192, database.stat().st_size - 8192)


def _cut_database(member: Path) -> None:
    os.truncate(member / "snap" / "db", 5000)


def _nothing_left(member: Path) -> None:
    shutil.rmtree(member)


HARM = (
    _garbage_in_the_log,
    _log_without_a_beginning,
    _empty_log,
    _garbage_in_the_database,
    _garbage_in_pages,
    _cut_database,
    _nothing_left,
)


@pytest.mark.parametrize("version", WITH_TOOLS)
def test_data_that_is_of_no_use_is_known_by_the_last_words_of_etcd(version: str, tmp_path: Path) -> None:
    with EtcdCluster(programs(version), tmp_path / "etcd") as etcd:
        member = etcd.founders[0]
        for number in range(30):
            etcd.etcdctl("put", f"key-{number}", "value" * 100)
        etcd.stop()
        data = member.data / "member"
        kept = tmp_path / "kept"
        shutil.copytree(data, kept)
        for harm in HARM:
            shutil.rmtree(data, ignore_errors=True)
            shutil.copytree(kept, data)
            words = _started(etcd, harm)
            assert find_spoiled_data(_seen(words, starts=3), "registry-0"), f"{harm.__name__}: {words}"
            assert not find_spoiled_data(_seen("", starts=3), "registry-0")


FULL = 'mount -t tmpfs -o size=1m tmpfs "$0" && { head -c 2m /dev/zero > "$0/more" || true; } && exec "$@"'


@pytest.mark.parametrize("version", WITH_TOOLS)
def test_data_that_cannot_be_got_at_is_not_taken_for_lost(version: str, tmp_path: Path) -> None:
    with EtcdCluster(programs(version), tmp_path / "etcd") as etcd:
        etcd.stop()
        data = etcd.founders[0].data / "member"
        full = _started(etcd, within=["unshare", "-m", "sh", "-c", FULL, str(data / "snap")])
        with _wal(data).open("r+b") as held:
            fcntl.fcntl(held, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            locked = _started(etcd)
        for words, why in ((full, "no space left on device"), (locked, "file already locked")):
            assert why in words
            assert not find_spoiled_data(_seen(words, starts=50), "registry-0"), words


def _started(etcd: EtcdCluster, harm: Callable[[Path], object] = lambda _: None, within: Sequence[str] = ()) -> str:
    """The end of what it says, with the file of a member that must have data."""
    member = etcd.founders[0]
    harm(member.data / "member")
    command = [
        *within,
        str(etcd.programs.etcd),
        *(f"--data-dir={member.data}", "--name=registry-0", "--logger=zap", "--log-outputs=stderr"),
        *(f"--listen-client-urls={member.url}", f"--advertise-client-urls={member.url}"),
        *(f"--listen-peer-urls={member.peer_url}", f"--initial-advertise-peer-urls={member.peer_url}"),
        "--initial-cluster=this-member-has-lost-its-data=https://nowhere.invalid:2380",
        "--initial-cluster-state=existing",
        *(f"--{side}{kind}-file={etcd.directory / file}" for side, kind, file in _files()),
    ]
    try:
        done = subprocess.run(command, check=False, capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it started in spite of {harm.__name__}")
    assert done.returncode, "it ended as if all was well"
    return "\n".join(done.stderr[-MESSAGE:].decode(errors="replace").splitlines()[-80:])


def _files() -> list[tuple[str, str, str]]:
    kinds = (("cert", "{}.crt"), ("key", "{}.key"), ("trusted-ca", "{}"))
    sides = (("", "server", "ca.crt"), ("peer-", "peer", "peer-ca.crt"))
    return [
        (side, kind, file.format(authority if kind == "trusted-ca" else name))
        for side, name, authority in sides
        for kind, file in kinds
    ]


def _seen(words: str, starts: int) -> EtcdObservation:
    """A pod that ended with these words, so many times."""
    ended = {"terminated": {"message": words}}
    status = {
        "name": "etcd",
        "restartCount": starts - 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": ended,
    }
    pod = {
        "kind": "Pod",
        "metadata": {"name": "registry-0"},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }
    world = World.of([pod], frozenset({"node-1"}), datetime.datetime.now(datetime.UTC))
    return make_observation(Etcd(name="registry", version="3.5"), world, Ledger())
