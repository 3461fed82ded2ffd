"""What was seen of an etcd in one pass: its objects, what each member says, what the members agree on. Pure data.

A member that did not answer is not down, and a list that was not had is not empty: both are `None` here, and what
follows from that is decided where it matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.protocol import Alarm, Member, MemberStatus
from fleet.apps.etcd.files import quota
from fleet.apps.etcd.spec import Etcd
from fleet.kit import names as kit_names
from fleet.kit.driver import Problem
from fleet.kit.members import Ledger
from fleet.kit.world import Object, World, is_leaving, is_ready

BEHIND = 5_000  # entries of the log; a member that is further behind is not in step
MOST_PODS = 64  # that are looked at: anybody who may write a StatefulSet can ask for two thousand million
FULL = 0.9  # of the quota in use: above it, a smaller file would be full again at once


@dataclass(frozen=True)
class Seen:
    """`members` come from a linearizable read, so a majority agreed on them. None: there is no majority to ask."""

    app: Etcd
    world: World
    ledger: Ledger | None
    statuses: Mapping[str, MemberStatus] = field(default_factory=dict)  # by pod, of those that answered
    silent: Mapping[str, str] = field(default_factory=dict)  # by pod, why it did not
    members: tuple[Member, ...] | None = None
    alarms: tuple[Alarm, ...] = ()
    barred: tuple[Problem, ...] = ()  # what the app asks for and the operator's owner does not allow
    origins: tuple[str, ...] = ()  # patterns of namespaces beside its own whose backups it may start from
    unfit: Problem | None = None  # why what runs already cannot be taken over, as far as that can be read

    @property
    def stateful_set(self) -> Object | None:
        return self.world.get("StatefulSet", kit_names.stateful_set(self.app))

    @property
    def container(self) -> str:
        """The name of etcd's container in each pod."""
        kept = names.layout(self.app)
        return kept.container if kept is not None else kit_names.engine(self.app)

    def bars(self, field: str) -> list[Problem]:
        return [problem for problem in self.barred if problem.field == field]

    @property
    def replicas(self) -> int:
        found = self.stateful_set
        return int(found["spec"].get("replicas", 1)) if found else 0

    @property
    def pods(self) -> list[str]:
        """The pods that the StatefulSet has or makes."""
        found = self.stateful_set
        start = int(found["spec"].get("ordinals", {}).get("start", 0)) if found else 0
        return [kit_names.pod(self.app, number) for number in range(start, start + min(self.replicas, MOST_PODS))]

    @property
    def places(self) -> list[str]:
        """The pods that members have by the ledger, also while there is no StatefulSet."""
        return sorted(self.ledger.places, key=kit_names.ordinal) if self.ledger else []

    @cached_property
    def by_pod(self) -> dict[str, Member]:
        """The agreed members, by the pod behind their peer URL."""
        found = {}
        for member in self.members or ():
            for url in member.peer_urls:
                if (pod := names.pod_of_peer_url(self.app, url)) is not None:
                    found[pod] = member
        return found

    @property
    def strangers(self) -> list[Member]:
        known = {member.id for member in self.by_pod.values()}
        return [member for member in self.members or () if member.id not in known]

    @property
    def voters(self) -> list[str]:
        return [pod for pod, member in self.by_pod.items() if not member.is_learner]

    @property
    def learners(self) -> list[str]:
        return [pod for pod, member in self.by_pod.items() if member.is_learner]

    @property
    def leader(self) -> str | None:
        """The pod that leads, if it says so itself."""
        return next((pod for pod, status in self.statuses.items() if status.leads), None)

    def healthy(self, pod: str) -> bool:
        """It votes, it serves, and it is in step."""
        return self.in_step(pod) and is_ready(self.world.pod(pod))

    def in_step(self, pod: str) -> bool:
        """As etcd itself has it: it votes, knows who leads, and has what the others have."""
        status, member = self.statuses.get(pod), self.by_pod.get(pod)
        if status is None or member is None or member.is_learner or not status.leader:
            return False
        return status.member_id == member.id and self.lag(pod) < BEHIND

    def lag(self, pod: str) -> int:
        """By how many entries of the log a member that answered is behind the one that knows most."""
        top = max(one.raft_index for one in self.statuses.values())
        return top - self.statuses[pod].raft_applied_index

    @property
    def healthy_pods(self) -> list[str]:
        return sorted((pod for pod in self.voters if self.healthy(pod)), key=kit_names.ordinal)

    def can_lose(self, pod: str) -> bool:
        """Whether the others are a majority of all voters while this one is away."""
        others = [one for one in self.healthy_pods if one != pod]
        return len(others) > len(self.voters) // 2

    @property
    def is_served(self) -> bool | None:
        """Whether clients are. None: kubelets call a majority ready, which the operator does not reach."""
        if self.members is not None:
            return True
        return None if self.ready_majority else False

    @property
    def ready_majority(self) -> bool:
        """In the words of kubelets, which call a member ready only as long as it is one of a majority."""
        return sum(is_ready(self.world.pod(pod)) for pod in self.pods) > len(self.pods) // 2

    @property
    def crowded(self) -> bool:
        """Nearly all of the quota is in use: by old revisions perhaps, perhaps by live data, which nobody can free."""
        return any(status.db_size_in_use > FULL * quota(self.app) for status in self.statuses.values())

    @property
    def oldest_version(self) -> str | None:
        """Of the members that answered; None when nobody did."""
        from fleet.model.types import release  # noqa: PLC0415

        versions = [status.version for status in self.statuses.values()]
        return min(versions, key=release) if versions else None

    def claim_of(self, pod: str) -> Object | None:
        return self.world.claim(kit_names.claim(self.app, pod))

    def pod_stays(self, pod: str) -> bool:
        found = self.world.pod(pod)
        return found is not None and not is_leaving(found)


def ledger_of(seen: Seen) -> Ledger:
    assert seen.ledger is not None  # noqa: S101 - the founders wrote it before anything else
    return seen.ledger


def set_of(seen: Seen) -> Object:
    found = seen.stateful_set
    assert found is not None  # noqa: S101 - `founded` saw to it
    return found
