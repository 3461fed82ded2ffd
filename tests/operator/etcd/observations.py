"""An etcd as one pass of the operator may find it, drawn by hand: well unless a test says what is not.

What a test names is all that differs from a settled cluster of three, so that a decision has one reason.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

from fleet.apps.etcd import names
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.answers import concerns, etcd_answers
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.apps.etcd.engine.half import EtcdHalf
from fleet.apps.etcd.engine.observe import EtcdObservation, make_observation, statuses_of
from fleet.apps.etcd.engine.protocol import Alarm, AlarmKind, Member, MemberStatus
from fleet.apps.etcd.engine.protocol import Etcd as Protocol
from fleet.apps.etcd.engine.secrets import secrets
from fleet.apps.etcd.files import FILE
from fleet.apps.etcd.spec import Etcd
from fleet.kit import names as kit_names
from fleet.kit.adoption.template import adopted_labels
from fleet.kit.members import Ledger, MemberRecord
from fleet.kit.observe.observation import ledger_in
from fleet.kit.observe.world import Object, World
from fleet.kit.operate.app_engine import ask_members
from fleet.kit.order import decide
from fleet.kit.step import Act, Annotate, Apply, Decision, Delete, Revert, SetStatus, Step, Take
from fleet.kit.workload.files import file_name, members_map, revision
from fleet.kit.workload.pods import pod_template, stateful_set
from fleet.kit.workload.stateful_set import changed

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
CLUSTER = 0xC1
IMAGES = {"etcd": "example.test/etcd:{series}"}
VERSIONS = {"3.4": "3.4.23", "3.5": "3.5.16", "3.6": "3.6.1"}


def app(**spec: Any) -> Etcd:
    return Etcd("db", namespace="shop", **{"version": "3.5", "members": 3, **spec})


def decided(seen: EtcdObservation, images: Mapping[str, str] = IMAGES) -> Decision:
    """As the operator's core does it with what the engine gives it."""
    return decide(concerns(seen, etcd_answers(images)), EtcdEngine(images).at_rest(seen))


async def observe(app: Etcd, world: World, client: Protocol) -> EtcdObservation:
    """Ask every member how it is, and then one of a majority who the members are."""
    ledger = ledger_in(app, world, adopted_labels(app))
    return await ask_members(EtcdHalf(), client, make_observation(app, world, ledger))


def before(seconds: float) -> str:
    return (NOW - datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def member_id(ordinal: int, generation: int = 0) -> int:
    return 0xA0 + ordinal + 0x100 * generation


@dataclass
class Drawing:
    """Settled and well, with `ran` as the app that the members were made for. Change it, then ask `decision()`."""

    app: Etcd = field(default_factory=app)
    ran: Etcd | None = None
    leader: int | None = 0
    nodes: frozenset[str] | None = frozenset({"node-1", "node-2"})
    members: list[Member] | None = None
    alarms: tuple[Alarm, ...] = ()
    images: Mapping[str, str] = field(default_factory=lambda: IMAGES)

    def __post_init__(self) -> None:
        made = self.ran = self.ran or self.app
        self.template = pod_template(DRIVER, made, DRIVER.image(made, self.images))
        self.set: Object | None = self._stateful_set(made)
        pods = [kit_names.pod(made, number) for number in range(made.members)]
        self.members = [_member(made, number) for number in range(made.members)]
        self.ledger: Ledger | None = Ledger(
            identity=f"{CLUSTER:x}",
            places={pod: MemberRecord("settled", f"{member_id(n):x}") for n, pod in enumerate(pods)},
        )
        self.files: Object | None = None  # as the ledger and the app that ran have them, unless drawn
        self.pods = {pod: self._pod(pod) for pod in pods}
        self.claims = {pod: _claim(pod) for pod in pods}
        self.volumes: dict[str, Object] = {}
        self.keys = keys()
        self.statuses = {pod: _status(made, n, self.leader) for n, pod in enumerate(pods)}
        self.silent: dict[str, str] = {}

    def _stateful_set(self, made: Etcd) -> Object:
        found = changed(stateful_set(DRIVER, made, self.template, replicas=made.members), partition=made.members)
        found["metadata"] |= {"uid": "set", "resourceVersion": "1"}
        found["status"] = {"currentRevision": "db-1", "updateRevision": "db-1"}
        return found

    def _pod(self, pod: str, template: Object | None = None) -> Object:
        made = copy.deepcopy(template or self.template)
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **made["metadata"],
                "name": pod,
                "namespace": "shop",
                "uid": f"pod-{pod}",
                "resourceVersion": "1",
                "creationTimestamp": before(3600),
            },
            "spec": {**made["spec"], "nodeName": "node-1"},
            "status": {
                "phase": "Running",
                "podIP": f"10.0.0.{kit_names.ordinal(pod)}",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": before(3500)}],
                "containerStatuses": [{"name": "etcd", "restartCount": 0, "state": {"running": {}}}],
            },
        }

    # What may be wrong

    def silence(self, *pods: str, ready: bool = False) -> Self:
        """They do not answer. Whether the kubelet calls them ready is another matter."""
        for pod in pods:
            self.statuses.pop(pod, None)
            self.silent[pod] = "no answer in 2 s"
            if pod in self.pods:
                self.unready(pod, ready=ready)
        return self

    def unready(self, pod: str, *, ready: bool = False, since: float = 3000) -> Self:
        conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": before(since)}]
        self.pods[pod]["status"]["conditions"] = conditions
        return self

    def alarm(self, kind: AlarmKind, *members: int) -> Self:
        """etcd is unhealthy as a whole then, so every kubelet calls its pod unready."""
        self.alarms += tuple(Alarm(one, kind) for one in members)
        for pod in self.pods:
            self.unready(pod)
        return self

    def crash(self, pod: str, words: str, restarts: int = 5) -> Self:
        """Its container ends each time, with these last words."""
        self.silence(pod)
        del self.silent[pod]
        ended = {"terminated": {"exitCode": 1, "message": words}}
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        status = {"name": "etcd", "restartCount": restarts, "state": waiting, "lastState": ended}
        self.pods[pod]["status"]["containerStatuses"] = [status]
        return self

    def remove_pod(self, pod: str) -> Self:
        self.silence(pod)
        del self.silent[pod]
        del self.pods[pod]
        return self

    def no_majority(self, *silent: str, ready: bool = False) -> Self:
        """Those do not answer; the others know no leader."""
        self.silence(*silent, ready=ready)
        self.members = None
        self.statuses = {pod: replace(status, leader=0) for pod, status in self.statuses.items()}
        return self

    # What may be under way

    def off_the_list(self, pod: str) -> Self:
        assert self.members is not None
        self.members = [one for one in self.members if one.peer_urls != (names.peer_url(self.app, pod),)]
        return self

    def learner(self, ordinal: int, generation: int = 1, *, started: bool = False) -> Self:
        assert self.members is not None
        pod = kit_names.pod(self.app, ordinal)
        self.off_the_list(pod)
        identity = member_id(ordinal, generation)
        url = (names.peer_url(self.app, pod),)
        self.members.append(Member(identity, pod if started else "", url, (), is_learner=True))
        if started:
            status = _status(self.app, ordinal, self.leader)
            self.statuses[pod] = replace(status, member_id=identity, is_learner=True)
        return self

    def place(self, pod: str, place: MemberRecord | None) -> Self:
        assert self.ledger is not None
        self.ledger = self.ledger.with_place(pod, place) if place else self.ledger.without(pod)
        return self

    def note(self, **ledger: Any) -> Self:
        assert self.ledger is not None
        self.ledger = replace(self.ledger, **ledger)
        return self

    def scale(self, replicas: int) -> Self:
        """The StatefulSet's replicas, with nothing more said about pods and claims."""
        assert self.set is not None
        self.set["spec"]["replicas"] = replicas
        return self

    def partition(self, partition: int) -> Self:
        assert self.set is not None
        self.set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = partition
        return self

    def roll(self, *through: str, partition: int | None = None) -> Self:
        """The StatefulSet has the template of the wanted app, and so have those pods."""
        assert self.set is not None
        new = pod_template(DRIVER, self.app, DRIVER.image(self.app, self.images))
        self.set["spec"]["template"] = copy.deepcopy(new)
        self.set["status"] = {"currentRevision": "db-1", "updateRevision": "db-2"}
        for pod in through:
            self.pods[pod] = self._pod(pod, new)
            self.statuses[pod] = replace(self.statuses[pod], version=VERSIONS[self.app.version])
        return self.partition(partition if partition is not None else len(self.pods))

    def claim(self, pod: str, uid: str = "", **metadata: Any) -> Self:
        self.claims[pod] = _claim(pod, uid=uid or f"claim-{pod}", **metadata)
        return self

    # What follows

    def seen(self) -> EtcdObservation:
        files = self.files
        if files is None and self.ledger is not None:
            ran = self.ran or self.app
            used = {revision(DRIVER, ran), revision(DRIVER, self.app)}
            present = members_map(DRIVER, ran, self.ledger, {}, used)["data"]
            files = members_map(DRIVER, self.app, self.ledger, present, used)
        named = (*self.pods.values(), *self.claims.values(), *self.volumes.values(), *self.keys)
        objects: Iterable[Object | None] = (self.set, files, *named)
        world = World.of([one for one in objects if one is not None], self.nodes, NOW)
        errors = tuple(f"memberID:{alarm.member_id} alarm:{alarm.kind}" for alarm in self.alarms)
        statuses = {pod: replace(status, errors=errors) for pod, status in self.statuses.items()}
        members = None if self.members is None else tuple(self.members)
        return make_observation(self.app, world, self.ledger, statuses, silent=self.silent, members=members)

    def decision(self) -> Decision:
        return decided(self.seen(), self.images)

    def steps(self) -> list[str]:
        """What is decided, in short."""
        return [said(step, self.app) for step in self.decision().steps]


@cache
def keys() -> tuple[Object, ...]:
    """The Secrets of any app that is drawn: what it is called is all that counts."""
    return tuple(secrets(app(), World({}), NOW))


def said(step: Step, asked: Etcd | None = None) -> str:
    """In etcd's own words, where the kit has others for what it asks of every engine."""
    match step:
        case Act(what="announce", arguments=arguments):
            return f"add {','.join(names.peer_urls(asked or app(), arguments['pod']))}"
        case Act(what="drain", arguments=arguments):
            return f"remove {arguments['member']}"
        case Act(what="vote", arguments=arguments):
            return f"promote {arguments['member']} {arguments['pod']}"
        case Act(what=what, arguments=arguments):
            values = [f"{value:x}" if isinstance(value, int) else str(value) for value in arguments.values()]
            return " ".join([what, *values])
        case Delete(object=found):
            return f"delete {found['kind']} {found['metadata']['name']}"
        case Revert():
            return "revert"
        case Take(object=found):
            return f"take {found['kind']} {found['metadata']['name']}"
        case Apply(manifest=manifest):
            return f"apply {manifest['kind']} {manifest['metadata']['name']}"
        case Annotate(annotations=annotations):
            return f"annotate {' '.join(annotations)}"
        case SetStatus(object=found, status=status):
            return f"{found['metadata']['name']} is {status['phase']}"


def applied(decision: Decision, kind: str) -> Object:
    (found,) = (one.manifest for one in decision.steps if isinstance(one, Apply) and one.manifest["kind"] == kind)
    return found


def file(data: Mapping[str, str], made: Etcd, pod: str) -> str:
    return data[file_name(pod, revision(DRIVER, made), FILE)]


def _member(made: Etcd, number: int) -> Member:
    pod = kit_names.pod(made, number)
    urls = (names.peer_url(made, pod),), (names.client_url(made, pod),)
    return Member(member_id(number), pod, *urls, is_learner=False)


def _status(made: Etcd, number: int, leader: int | None) -> MemberStatus:
    return MemberStatus(
        cluster_id=CLUSTER,
        member_id=member_id(number),
        leader=member_id(leader) if leader is not None else 0,
        version=VERSIONS[made.version],
        raft_index=1000,
        raft_applied_index=1000,
        raft_term=2,
        db_size=1 << 20,
        db_size_in_use=1 << 20,
        is_learner=False,
        errors=(),
    )


def _claim(pod: str, uid: str = "", **metadata: Any) -> Object:
    own = {"name": f"data-{pod}", "namespace": "shop", "uid": uid or f"claim-{pod}", "resourceVersion": "1", **metadata}
    spec = {"resources": {"requests": {"storage": "8Gi"}}}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "metadata": own, "spec": spec, "status": {"phase": "Bound"}}


def reobserved(
    seen: EtcdObservation,
    world: World | None = None,
    statuses: Mapping[str, MemberStatus] | None = None,
    members: Iterable[Member] | None = None,
) -> EtcdObservation:
    """The same app with another world, with what these members say alone, or with another list that they agree on."""
    again = make_observation(
        seen.app,
        world or seen.world,
        seen.ledger,
        statuses_of(seen) if statuses is None else statuses,
        silent={pod: silence.reason for pod, silence in seen.silences.items()},
        members=None if members is None else tuple(members),
    )
    return replace(again, unfit=seen.unfit)
