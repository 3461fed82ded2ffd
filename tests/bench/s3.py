"""A backup to a real S3 server on this machine: how fast it is beside curl, and how much memory it takes.

The same file goes to the same server in turns: by curl as one signed request, by the client of the operator's steps in
parts, and as a whole backup, which is verified before, read back afterwards and recorded. Client, server and disk share
the machine. `BENCH_MIB` is the size, 5 GiB unless given or unless the disk has less than three times as much to spare.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet.kit.backup import content
from fleet.kit.backup.plan import BackupPlan, Facts
from fleet.testing.s3 import S3
from tests.bench.figure import Figure, at_least, at_most, in_turns
from tests.kit.backup.types import POSTGRES, Postgres

MIB = 1 << 20
SMALL_MIB = 64
ROUNDS = 3


def verify_dump(file: Path) -> Facts:
    size, digest = content.file_digest(file)
    return Facts(size, f"sha256:{digest}", "", "17")


DUMPS = BackupPlan[Postgres](
    kind="Postgres",
    role=POSTGRES.role,
    save=POSTGRES.save,
    suffix="dump",
    verify="tests.bench.s3:verify_dump",
    put_back=lambda app, _about: POSTGRES.save(app, ""),
)


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as directory, _server() as server:
        place = Path(directory)
        mib = _size(place)
        large, small = _write(place / "large", mib), _write(place / "small", SMALL_MIB)
        peaks: dict[str, list[float]] = {"upload": [], "backup": []}

        def ours(step: str) -> float:
            seconds, peak = _child(server, step, large)
            peaks[step].append(peak)
            return mib / seconds

        curl, upload, backup = in_turns(
            ROUNDS, lambda: mib / _curl(server, large), lambda: ours("upload"), lambda: ours("backup")
        )
        little = [_child(server, "upload", small)[1] for _ in range(ROUNDS)]
        of = f"{mib} MiB"
        yield Figure(f"curl, one request of {of}", tuple(curl), "MiB/s")
        goal = sorted(curl)[len(curl) // 2] / 2
        yield at_least(f"upload in parts, {of}", upload, "MiB/s", goal, "half of curl's")
        yield Figure(f"whole backup, {of}", tuple(backup), "MiB/s", note="verified, sent, read back, recorded")
        yield Figure(f"memory of an upload of {SMALL_MIB} MiB", tuple(little), "MiB")
        yield at_most(
            f"memory of an upload of {of}", peaks["upload"], "MiB", max(little) + 48, "flat: three parts more"
        )
        yield at_most(f"memory of a whole backup of {of}", peaks["backup"], "MiB", 256, "the container's limit")


def _size(place: Path) -> int:
    if given := os.environ.get("BENCH_MIB"):
        return int(given)
    return min(5 * 1024, shutil.disk_usage(place).free // MIB // 3)


def _write(file: Path, mib: int) -> Path:
    block = os.urandom(MIB)
    with file.open("wb") as target:
        for number in range(mib):
            target.write(number.to_bytes(8, "big") + block[8:])
    return file


@contextmanager
def _server() -> Iterator[S3]:
    from fleet.lab.lab import take_down
    from fleet.lab.programs.process import identify
    from fleet.lab.services import start_services
    from fleet.lab.services.s3 import REGION
    from fleet.testing.s3 import Key

    lab = f"bench{os.getpid()}"
    record = start_services(lab, ["s3"], owner=identify(os.getpid()))[0]
    try:
        yield S3.of(record.url, REGION, Key(record.user, record.secret))
    finally:
        take_down(lab)


def _curl(server: S3, file: Path) -> float:
    """Return the seconds that curl takes for one request."""
    command = ["curl", "--silent", "--show-error", "--fail", "--upload-file", str(file)]
    command += ["--aws-sigv4", f"aws:amz:{server.region}:s3", "--user", f"{server.key.access}:{server.key.secret}"]
    command += ["--header", "x-amz-content-sha256:UNSIGNED-PAYLOAD", f"{server.url}/{server.bucket.name}/by-curl"]
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - begin
    server.bucket.delete("by-curl")
    return seconds


def _child(server: S3, step: str, file: Path) -> tuple[float, float]:
    """Return the seconds of a step in a process of its own, and the most memory that it had, in MiB."""
    environment = {"AWS_ACCESS_KEY_ID": server.key.access, "AWS_SECRET_ACCESS_KEY": server.key.secret}
    command = [sys.executable, "-m", "tests.bench.s3", step, str(file), server.url, server.bucket.name]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **environment}, cwd=Path.cwd()
    )
    for key in server.bucket.keys(""):
        server.bucket.delete(key)
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def main() -> None:
    """Do one step, and print its seconds and the most memory."""
    from fleet.kit.backup.bucket import open_shelf, pieces_of
    from fleet.kit.backup.retention import keep
    from fleet.s3.bucket import part_size

    step, name, endpoint, bucket = sys.argv[1:]
    file = Path(name)
    shelf = open_shelf(DUMPS, file.parent, os.environ, bucket=bucket, endpoint=endpoint)
    begin = time.monotonic()
    if step == "upload":
        shelf.client.upload("by-us", pieces_of(file), part_size(file.stat().st_size))
    else:
        keep(shelf, file, app="db", namespace="ns", identity="", version="17", count=1, place="s3", job="bench")
    print(json.dumps([time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


if __name__ == "__main__":
    main()
