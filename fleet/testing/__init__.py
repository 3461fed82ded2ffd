"""Real clusters in tests. Installing `fleet-gitops[testing]` is enough; pytest finds the fixtures by itself.

    def test_my_chart(cluster):
        cluster.kubectl("apply", "-f", "chart.yaml")

Fixtures:

- `cluster`: a real API server with simulated nodes, shared by the run, with a fresh namespace for this test
- `clusters`: `clusters(3)` gives three of them
- `real_cluster`: one with two real nodes, where containers run (Linux, root)
- `faults`: what can go wrong in `real_cluster`, all of it undone after the test
- `api_proxy`: a proxy in front of `cluster` with a plan of what goes wrong; see `fleet.testing.proxy`
- `git_remote`: a bare git repository to push to
- `forge`: a real forge (Gitea), shared by the run, with a fresh user for this test
- `s3`: a real S3 server, shared by the run, with a fresh account and bucket for this test

`collect_stacks()` needs no cluster: it returns what every stack of the repository declares.

`--fleet-lab NAME` uses a lab that is running instead of starting one, which makes a test start in a blink.
"""

from fleet.testing.audit import AuditLog, Request
from fleet.testing.cluster import Cluster
from fleet.testing.faults import Broken, Faults
from fleet.testing.forge import Forge, ForgeError
from fleet.testing.git import GitRemote
from fleet.testing.s3 import S3, S3Error
from fleet.testing.stacks import collect_stacks

__all__ = [
    "S3",
    "AuditLog",
    "Broken",
    "Cluster",
    "Faults",
    "Forge",
    "ForgeError",
    "GitRemote",
    "Request",
    "S3Error",
    "collect_stacks",
]
