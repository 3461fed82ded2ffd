"""`make demo`, warm: what has to be built is built, and nothing runs. Two clusters with two real nodes each start,
the operator is installed as a Deployment, an etcd with three members in each cluster comes from a commit, another makes
it five, and a member that is lost with its volume is replaced. Members and their health are checked on the way by
etcdctl with TLS, and the page in git at the end.

## The first run

What is built is built once. Until the first healthy etcd:

| part | before | now |
|---|---|---|
| `make setup` | 36 s | the same |
| Debian packages for nodes and for making images | 10 s + 7 s, before all else | while Go compiles |
| Kubernetes: Go modules, 2,840 packages | 17 s + 7 min 47 s | the same |
| CoreDNS | 104 s of CPU (2 min 27 s): 378 packages | 14 s of CPU: 77 packages |
| images of etcd and the operator | 41 s + 73 s, when clusters run | while Kubernetes is compiled |
| `fleet lab up --nodes simulated` afterwards | kwok: 5 min 30 s | nothing |
| an etcd of another series, 3.6.8 | not to be had | 5 s of CPU |
| one more patch, 3.5.35, when it is asked for | not to be had | 85 s of CPU |

All of the first demo took 853 s of CPU before, of which CoreDNS alone had 104.

The times before are of one run on 2 cores, with other work from the third minute on: 16 min 46 s for all of the demo.
What CoreDNS and etcd 3.6.8 share with Kubernetes has the same versions in their go.mod, so it is compiled once. CPU
times are user and system together. What the first run takes now, with empty caches and nothing beside it,
`python -m tests.bench cold` measures: [cold](cold.md).

Tried, and not done: without inlining (`-gcflags=-l`) packages of Kubernetes take 18 % less CPU to compile, without
optimisation (`-N`) 9 %, and every run of every test would pay for it; a larger heap for the compiler (`GOGC=400`) saves
3 %, which is within the noise. kubectl is 79 of the 2,840 packages, so to build it later is worth little.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from fleet.lab.lab import take_down
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
        take_down(NAME)
