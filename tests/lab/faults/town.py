"""Pods that talk to each other, so that a fault can be seen from where it hurts.

They are of the etcd image, which has perl: a server that answers datagrams and counts them, and a client that says
which answers came, in which order and how long that took.
"""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fleet.errors import ResourceError
from fleet.lab.faults import lookup
from fleet.testing import Cluster

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
IMAGE = "localhost/fleet-lab/etcd:3.5"
SERVER = r"""
use Socket;
$SIG{TERM} = sub { if (open(my $f, ">>", "/data/asked-to-end")) { print $f "yes\n"; close $f } exit 0 };
socket(my $s, PF_INET, SOCK_DGRAM, 0) or die; bind($s, pack_sockaddr_in(5000, INADDR_ANY)) or die;
my $count = 0;
while (1) {
    my $from = recv($s, my $text, 2048, 0) or next;
    $count++;
    if (my ($host, $port) = $text =~ /^dial (\S+) (\d+)/) {
        my $place = pack_sockaddr_in($port, inet_aton($host));
        socket(my $t, PF_INET, SOCK_STREAM, 0);
        my $made = eval { local $SIG{ALRM} = sub { die }; alarm 1; connect($t, $place) };
        alarm 0;
        $text = $made ? "reached" : "not reached";
    }
    send($s, "$count $text", 0, $from);
}
"""
CLIENT = r"""
use Socket; use IO::Select;
my ($address, $count, $gap, $turns, $text) = @ARGV;
sub now { open(my $f, "<", "/proc/uptime"); (split ' ', <$f>)[0] }
socket(my $s, PF_INET, SOCK_DGRAM, 0) or die;
connect($s, pack_sockaddr_in(5000, inet_aton($address))) or die;
my ($ready, $began) = (IO::Select->new($s), now());
sub answer { my $said; print "$said\n" if defined recv($s, $said, 2048, 0) }
for my $number (1 .. $count) {
    send($s, $text || $number, 0);
    if ($turns) { answer() if $ready->can_read(1.5) } else { select(undef, undef, undef, $gap) }
}
if (!$turns) { answer() while $ready->can_read(3) }
printf "%.2f\n", now() - $began;
"""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a client got back: the server's count and the question of each answer, and the seconds it took."""

    counts: list[int]
    words: list[str]
    seconds: float

    @property
    def overtaken(self) -> int:
        order = [int(word) for word in self.words]
        return sum(before > after for before, after in itertools.pairwise(order))


def pod(name: str, node: str, claim: str = "") -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": IMAGE, "command": ["perl", "-e", SERVER]}
    spec: dict[str, Any] = {
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 0,
    }
    if claim:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def claim(name: str, size: str = "32Mi") -> dict[str, Any]:
    resources = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True)
class Town:
    """`here` and `beside` are on the first node, `there` on the second; `there` has a volume."""

    cluster: Cluster

    @cached_property
    def nodes(self) -> list[str]:
        return sorted(self.cluster.node_names)[:2]

    @cached_property
    def api_server(self) -> tuple[str, int]:
        spec = self.cluster.lab.spec.cluster(self.cluster.name)
        return spec.gateway, spec.ports["kube-apiserver"]

    @cached_property
    def api_service(self) -> tuple[str, int]:
        return str(self.cluster.lab.spec.cluster(self.cluster.name).services[1]), 443

    def build(self) -> None:
        self.cluster.images("etcd:3.5")
        first, second = self.nodes
        pods = [pod("here", first), pod("beside", first), pod("there", second, "data")]
        self.cluster.apply(claim("data"), *pods)
        self.cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=90s")

    def pod(self, name: str) -> dict[str, Any]:
        lab, cluster = self.cluster.lab, self.cluster.name
        return lookup.read_pod(lab, lab.spec.cluster(cluster), self.cluster.namespace, name)

    def address(self, name: str) -> str:
        return str(self.pod(name)["status"]["podIP"])

    def restarts(self, name: str) -> int:
        return int(self.pod(name)["status"]["containerStatuses"][0]["restartCount"])

    def ask(
        self, asker: str, asked: str, count: int = 1, *, gap: float = 0, turns: bool = True, text: str = ""
    ) -> Heard:
        """Ask from inside a pod. In turns: each question waits for the answer before."""
        script = ["perl", "-e", CLIENT, self.address(asked), str(count), str(gap), str(int(turns)), text]
        *answers, seconds = self.inside(asker, *script).splitlines()
        parts = [answer.partition(" ") for answer in answers]
        return Heard([int(number) for number, _, _ in parts], [word for _, _, word in parts], float(seconds))

    def reaches(self, asker: str, asked: str) -> bool:
        return bool(self.ask(asker, asked).words)

    def dials(self, asker: str, address: str, port: int, through: str = "") -> bool:
        """Whether a pod can open a connection; another one may ask it to try."""
        return self.ask(through or asker, asker, text=f"dial {address} {port}").words == ["reached"]

    def inside(self, name: str, *command: str) -> str:
        """Run a program of the pod's image where its container is: no fault of networks or nodes is in the way."""
        pod = lookup.find_pod(self.cluster.lab, self.cluster.name, self.cluster.namespace, name)
        [first, *_] = lookup.list_processes(pod.groups["main"])
        enter = ["nsenter", f"--target={first.pid}", "--mount", "--net", "--pid", "--uts", "--ipc", "--root", "--wd"]
        done = subprocess.run(
            [*enter, "--", *command], capture_output=True, text=True, timeout=60, check=False, env={"PATH": PATH}
        )
        if done.returncode:
            raise ResourceError(done.stderr or done.stdout)
        return done.stdout

    def shell(self, name: str, script: str) -> str:
        return self.inside(name, "sh", "-c", script)

    def is_ready(self, node: str) -> bool:
        conditions = self.cluster.get("node", node)["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
