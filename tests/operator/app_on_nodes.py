"""An app on real nodes as an end-to-end test sees it: what is wanted of it, what the operator says, what runs.

The operator is a process of this machine, so that it can be ended and started like one. What is asked often goes
straight to the API server; what a person would do goes through kubectl.
"""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
import psutil

from fleet.errors import FleetError
from fleet.lab.cluster import volumes
from fleet.lab.cluster.api import Api
from fleet.objects.redaction import SecretValues
from fleet.render import crd
from fleet.testing import Cluster
from fleet.testing.traffic import TRAFFIC_ERRORS, MemberAddress
from fleet.version import __version__
from tests.operator.engine_under_test import EngineUnderTest
from tests.operator.writer import Writer, lost
from tests.served import wait_served

OPERATOR_IMAGE = f"localhost/fleet-lab/fleet-operator:{__version__}"
PRIVATE = (".key", "password", "token")  # how keys of Secrets end that nobody else may see
PATIENCE = 300.0  # seconds for one operation, whatever else the machine does
REPOSITORY = Path(__file__).parents[2]
SMALL = {"storage": "512Mi", "resources": {"cpu": "200m", "memory": "256Mi"}}  # so that many fit on two nodes

Object = dict[str, Any]


def say_nothing_secret(cluster: Cluster, log: Path, engine: EngineUnderTest) -> None:
    """Neither the operator's log nor an event nor a status has a private key or a password of the namespace in it."""
    found = cluster.get(f"secrets,events,{engine.resource.title}")["items"]
    kept = [one for one in found if one["kind"] == "Secret"]
    private = [
        {**one, "data": {key: value for key, value in (one.get("data") or {}).items() if key.endswith(PRIVATE)}}
        for one in kept
    ]
    hidden = SecretValues.of(private)
    for text in (log.read_text(errors="replace"), orjson.dumps([one for one in found if one not in kept]).decode()):
        assert hidden.redact(text) == text
    assert hidden or not any(one["metadata"]["name"].endswith("-ca") for one in kept), "what is looked for is known"


def api_of(cluster: Cluster) -> Api:
    """A connection of one's own: it is for one thread."""
    return cluster.lab.api(cluster.lab.spec.cluster(cluster.name))


class Operator:
    """Looks after the apps of the test's namespace."""

    def __init__(self, cluster: Cluster, log: Path, engine: EngineUnderTest) -> None:
        self.cluster = cluster
        self.engine = engine
        self.kubeconfig = cluster.kubeconfig  # of one who may do everything, unless told otherwise
        self.options: tuple[str, ...] = ()  # beside those that every test needs
        self.log = log
        log.touch()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, tree: Path | None = None) -> None:
        """Start it: that of another tree of sources, if one is given."""
        paths = {"PYTHONPATH": os.pathsep.join((str(tree), str(tree / "operator")))} if tree is not None else {}
        command = [
            *(sys.executable, "-m", "fleet_operator", "run", "--no-lease"),
            f"--kubeconfig={self.kubeconfig}",
            f"--context={self.cluster.context}",
            f"--namespace={self.cluster.namespace}",
            f"--operator-image={OPERATOR_IMAGE}",
            f"--image={self.engine.name}={self.engine.image}",
            "--allow-image=*",
            *(("--allow-service=*",) if tree is None else ()),  # which the release before does not have
            *self.options,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=tree or REPOSITORY,
                env={**self.engine.environment, **paths},
            )

    def is_looking(self, since: int) -> bool:
        """Whether one that was started since a mark of the audit log follows the apps of the namespace by now."""
        with self.cluster.audit.path.open("rb") as log:
            log.seek(since)
            events = [orjson.loads(line) for line in log if line.endswith(b"}\n")]
        return any(
            one["stage"] == "ResponseStarted"  # the end of a watch is that of the one before
            and one["verb"] == "watch"
            and one.get("userAgent", "").startswith("fleet-operator")
            and one.get("objectRef", {}).get("resource") == self.engine.resource.plural
            and one["objectRef"].get("namespace") == self.cluster.namespace
            for one in events
        )

    def kill(self) -> None:
        """Without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """In order: it says that it ended well, and leaves no connection to be found by the collector."""
        if self._process is not None:
            assert self._end(signal.SIGTERM) == 0
            assert b"Unclosed" not in self.log.read_bytes()

    def _end(self, how: signal.Signals) -> int | None:
        if self._process is None:
            return None
        self._process.send_signal(how)
        ended, self._process = self._process.wait(60), None
        return ended


@dataclass(frozen=True)
class App:
    """One app of the type that the operator is tested with."""

    cluster: Cluster
    operator: Operator
    name: str = "registry"
    began: float = field(default_factory=time.monotonic)

    @property
    def engine(self) -> EngineUnderTest:
        return self.operator.engine

    @cached_property
    def api(self) -> Api:
        return api_of(self.cluster)

    # What is wanted

    def want(self, **spec: Any) -> None:
        """Say all of it, as git would."""
        self.cluster.apply(
            {
                "apiVersion": self.engine.resource.api_version,
                "kind": self.engine.kind,
                "metadata": {"name": self.name, "namespace": self.cluster.namespace},
                "spec": {**SMALL, **spec},
            }
        )

    def change(self, **spec: Any) -> None:
        """Say something else about some of it; None takes it back."""
        patch = orjson.dumps({"spec": spec}).decode()
        self.cluster.kubectl("patch", self.engine.resource.title, self.name, "--type=merge", "-p", patch)

    # What the operator says

    def found(self) -> Object:
        return self.api.get(self.engine.resource.path(self.namespace, self.name))

    @property
    def status(self) -> Object:
        found: Object = self.found().get("status", {})
        return found

    def healths(self, since: str) -> list[tuple[str, str]]:
        """Return every health and message that the app has had since a resourceVersion of it, in their order."""
        kind = self.engine.resource.collection(self.namespace)
        only = f"fieldSelector=metadata.name%3D{self.name}&resourceVersion={since}"
        events = self.cluster.kubectl("get", "--raw", f"{kind}?watch=1&{only}&timeoutSeconds=2").splitlines()
        apps = [event["object"] for event in map(orjson.loads, events)]
        assert all(app["kind"] == self.engine.kind for app in apps), (
            f"the API server does not tell all of it: {apps[-1]}"
        )
        told = [(app["status"].get("health", ""), app["status"].get("message", "")) for app in apps]
        return [pair for pair, _ in groupby(told)]

    def condition(self, kind: str) -> Object:
        """As of the newest generation, or nothing."""
        found = self.found()
        for one in found.get("status", {}).get("conditions", ()):
            if one["type"] == kind and one.get("observedGeneration") == found["metadata"]["generation"]:
                condition: Object = one
                return condition
        return {}

    def is_ready(self) -> bool:
        return self.condition("Ready").get("status") == "True"

    def wait_ready(self, seconds: float = PATIENCE) -> None:
        self.wait("it is ready", self.is_ready, seconds)

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """With what the operator said last, if it does not happen."""
        end, problem = time.monotonic() + seconds, ""
        while True:
            try:
                if condition():
                    return
                problem = ""
            except (FleetError, KeyError, IndexError, *TRAFFIC_ERRORS) as error:
                problem = f": {type(error).__name__}: {error}"
            if time.monotonic() > end:
                break
            time.sleep(0.1)
        raise AssertionError(f"{what}: not within {seconds:g} s{problem}\n{self.story()}")

    def story(self) -> str:
        """For whoever reads a failure."""
        parts = []
        with suppress(FleetError):
            status = self.status
            parts.append(f"{status.get('health')}: {status.get('message')}")
            parts += [f"  {one['type']}={one['status']} {one['reason']}" for one in status.get("conditions", ())]
            parts += [f"  {reason}: {note}" for reason, note in self.events()[-12:]]
            parts.append(self.cluster.kubectl("get", "pods,pvc", "-o", "wide"))
        parts.append("\n".join(self.operator.log.read_text().splitlines()[-15:]))
        return "\n".join(parts)

    def events(self) -> list[tuple[str, str]]:
        """Reasons and notes, in the order in which they came."""
        found = self.api.get(f"/apis/events.k8s.io/v1/namespaces/{self.cluster.namespace}/events")["items"]
        app = {"kind": self.engine.kind, "name": self.name}
        own = [one for one in found if app.items() <= one["regarding"].items()]
        own.sort(key=lambda one: str(one.get("eventTime") or one.get("deprecatedFirstTimestamp")))
        return [(one["reason"], one.get("note", "")) for one in own]

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.events()]

    # What runs

    def pods(self, api: Api | None = None) -> dict[str, Object]:
        """The members' own, by name."""
        selector = f"app.kubernetes.io/instance={self.name},fleet.dev/kind={self.engine.kind}"
        path = f"/api/v1/namespaces/{self.cluster.namespace}/pods?labelSelector={selector}"
        found = (api or self.api).get(path)["items"]
        return {one["metadata"]["name"]: one for one in found if self._is_member(one["metadata"]["name"])}

    def _is_member(self, pod: str) -> bool:
        return pod.removeprefix(f"{self.name}-").isdigit()

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def restarts(self) -> dict[str, tuple[str, int]]:
        """What changes when a member is restarted in any way."""
        return {
            name: (pod["metadata"]["uid"], sum(one["restartCount"] for one in pod["status"]["containerStatuses"]))
            for name, pod in self.pods().items()
        }

    def ready_since(self) -> dict[str, tuple[str, str]]:
        """The members that are ready in the words of their nodes: which pod, and since when."""
        return {
            name: (pod["metadata"]["uid"], one["lastTransitionTime"])
            for name, pod in sorted(self.pods().items())
            for one in pod["status"].get("conditions", ())
            if (one["type"], one["status"]) == ("Ready", "True")
        }

    def places(self, api: Api | None = None) -> list[MemberAddress]:
        """Members that run, as a client could know them."""
        running = {
            name: pod["status"]["podIP"]
            for name, pod in sorted(self.pods(api).items())
            if pod["status"].get("phase") == "Running" and pod["status"].get("podIP")
        }
        hosts = f"{self.name}-peers.{self.namespace}.svc"
        return [MemberAddress(address, f"{name}.{hosts}", self.engine.port) for name, address in running.items()]

    @property
    def namespace(self) -> str:
        return self.cluster.namespace

    def leader(self) -> str:
        """In the operator's words, which follow an election with its next look."""
        self.wait("it is said who leads", lambda: bool(self.status["leader"]), 60)
        found: str = self.status["leader"]
        return found

    def process(self, pod: str) -> psutil.Process:
        """The engine in a pod: nodes share this machine's kernel."""
        status = self.pods()[pod]["status"]["containerStatuses"][0]
        container = status["containerID"].rpartition("/")[2]
        for process in psutil.process_iter(["name"]):
            with suppress(OSError, psutil.Error):
                if (
                    process.name() == self.engine.program
                    and container in Path(f"/proc/{process.pid}/cgroup").read_text()
                ):
                    return process
        raise AssertionError(f"{pod} has no process of container {container}")

    def claims(self) -> dict[str, str]:
        """Of the members, with their UIDs."""
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims")["items"]
        names = {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}
        return {name: uid for name, uid in names.items() if self._is_member(name.removeprefix(f"{self.engine.claim}-"))}

    def volume(self, pod: str) -> Path:
        """The directory of a member's volume, as this machine reaches it."""
        found = volumes.find_claim_volume(
            self.cluster.lab, self.cluster.name, self.cluster.namespace, f"{self.engine.claim}-{pod}"
        ).mount
        assert found, f"the volume of {pod} is not mounted"
        return found

    def lose_pod(self, pod: str) -> Callable[[], None]:
        """A function that ends a member at once, with no chance to hand over, and takes its pod away."""
        process = self.process(pod)

        def lose() -> None:
            process.kill()
            self.delete_pod(pod)

        return lose

    def delete_pod(self, pod: str) -> None:
        self.cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")

    # Its clients

    def tls(self) -> ssl.SSLContext | None:
        """Of the connection Secret; None if it has no certificates."""
        secret = self.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{self.name}-connection")
        data = {name: b64decode(value) for name, value in secret["data"].items()}
        if "ca.crt" not in data:
            return None
        context = ssl.create_default_context(cadata=data["ca.crt"].decode())
        with tempfile.NamedTemporaryFile() as both:
            both.write(data["tls.crt"] + data["tls.key"])
            both.flush()
            context.load_cert_chain(both.name)
        return context

    def certificate(self, pod: str) -> bytes:
        """That a member shows to clients."""
        address = self.pods()[pod]["status"]["podIP"]
        return ssl.get_server_certificate((address, self.engine.port), timeout=5).encode()

    def writer_to(self, places: list[MemberAddress], **options: Any) -> Writer:
        """A writer of clients that know the app by other addresses than members have."""
        return Writer(self.engine.traffic, lambda: places, self.tls(), **options)

    def writer(self, **options: Any) -> Writer:
        api = api_of(self.cluster)
        return Writer(self.engine.traffic, lambda: self._written_to(api), self.tls(), **options)

    def _written_to(self, api: Api | None = None) -> list[MemberAddress]:
        """The members that clients of a test write to."""
        places = self.places(api)
        return places if self.engine.shares_data else [place for place in places if self._is_first(place)]

    def _is_first(self, place: MemberAddress) -> bool:
        return place.name.startswith(f"{self.name}-0.")

    def has_all(self, numbers: frozenset[int]) -> None:
        """Every acknowledged write is in the app."""
        missing: list[int] = []

        def answers() -> bool:
            missing[:] = lost(self.engine.traffic, numbers, self._written_to()[0], self.tls())
            return True

        self.wait("a member tells what it has", answers, 60)
        assert not missing, f"{len(missing)} of {len(numbers)} acknowledged writes are lost: {missing[:10]} …"

    def every_member_has_all(self, numbers: frozenset[int]) -> None:
        """By its own memory, once it had a moment to catch up."""
        for place in self._written_to():
            self.wait(f"{place.name} has all", partial(self._has_all, numbers, place), 60)

    def _has_all(self, numbers: frozenset[int], place: MemberAddress) -> bool:
        return not lost(self.engine.traffic, numbers, place, self.tls(), own=True)

    def took(self) -> str:
        return f"{time.monotonic() - self.began:.0f} s"


def dead_webhook(namespace: str, group: str, resource: str) -> Object:
    """Return a webhook that refuses a kind as long as it does not answer. Its Service does not exist."""
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    webhook = {
        "name": "dead.example.com",
        "clientConfig": {"service": {"namespace": namespace, "name": "dead", "path": "/"}},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"dead-{namespace}"},
        "webhooks": [webhook],
    }


def release(cluster: Cluster, engine: EngineUnderTest) -> None:
    """Let go of all apps of the namespace, so that it can be removed without an operator."""
    with suppress(FleetError):
        kind = engine.resource.title
        for one in cluster.get(kind)["items"]:
            nothing = orjson.dumps({"metadata": {"finalizers": None}}).decode()
            cluster.kubectl("patch", kind, one["metadata"]["name"], "--type=merge", "-p", nothing)
        cluster.kubectl("delete", f"{kind},statefulsets", "--all", "--wait=false")
        cluster.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")


def definitions() -> str:
    """Of the custom resources, as `fleet crds` prints them."""
    return orjson.dumps({"apiVersion": "v1", "kind": "List", "items": list(crd.definitions().values())}).decode()


@contextmanager
def unattended_app(cluster: Cluster, directory: Path, engine: EngineUnderTest) -> Iterator[App]:
    """An app that is not there yet, in a cluster that knows its kind, and an operator that is not started."""
    cluster.kubectl("apply", "--server-side", "-f", "-", input=definitions())
    wait_served(cluster, engine.resource.title)
    operator = Operator(cluster, directory / "operator.log", engine)
    try:
        yield App(cluster, operator)
        say_nothing_secret(cluster, operator.log, engine)
    finally:
        try:
            operator.stop()
        finally:
            release(cluster, engine)
