"""`make demo`, warm: what has to be built is built, and nothing runs. Two clusters with two real nodes each start,
the operator is installed as a Deployment, an etcd with three members in each cluster comes from a commit, another makes
it five, and a member that is lost with its volume is replaced. Members and their health are checked on the way by
etcdctl with TLS, and the page in git at the end.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from fleet.lab.lab import down
from tests.bench.figure import Figure, at_most

NAME = "bench-demo"
LIMIT = 300.0


def figures() -> Iterator[Figure]:
    yield at_most("make demo, warm", [_measured()], "s", LIMIT, "with the lab's start")


def _measured() -> float:
    begin = time.monotonic()
    try:
        subprocess.run([sys.executable, "-m", "tests.demo", "--name", NAME], check=True, stdout=sys.stderr)
        return time.monotonic() - begin
    finally:
        down(NAME)
