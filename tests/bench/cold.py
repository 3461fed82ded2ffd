"""`make demo` on a machine that has built nothing yet: the caches of Go and of the lab are empty, and system packages
are as they are. Until the first healthy etcd, Kubernetes, the lab's own programs and two images are made from source.

It is measured when it is named, and not with the others: it takes the whole machine for some ten minutes.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fleet.lab.lab import take_down
from tests.bench.figure import Figure, at_most

NAME = "bench-cold"
LIMIT = 600.0
HEALTHY = "✓ coordination on"


def figures() -> Iterator[Figure]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    healthy, whole = _measured()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    yield at_most("make demo, cold: to the first healthy etcd", [healthy], "s", LIMIT)
    yield Figure("make demo, cold: all of it", (whole,), "s")
    yield Figure("CPU time of it, without the clusters themselves", (spent,), "s")


def _measured() -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="fleet-cold-") as directory:
        place = Path(directory)
        caches = {"FLEET_CACHE_DIR": "fleet", "GOCACHE": "go-build", "GOMODCACHE": "go-mod"}
        environment = {**os.environ, "GOFLAGS": "-modcacherw", **{name: str(place / to) for name, to in caches.items()}}
        begin = time.monotonic()
        healthy = 0.0
        try:
            command = [sys.executable, "-m", "tests.demo", "--name", NAME]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as demo:
                assert demo.stdout is not None
                for line in demo.stdout:
                    sys.stderr.write(line)
                    if line.startswith(HEALTHY) and not healthy:
                        healthy = time.monotonic() - begin
            if demo.returncode or not healthy:
                sys.exit("the demo did not come to its end")
            return healthy, time.monotonic() - begin
        finally:
            take_down(NAME)
