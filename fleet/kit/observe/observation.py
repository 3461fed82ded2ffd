"""What was observed of one role of an app in one reconcile: its objects, what each member says, what those whose word
counts agree on. Pure data, and the questions that every decision asks of it.

A member that did not answer is not down, and a list that was not had is not empty: both are absent here, and what
follows from that is decided where it matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from fleet.kit import names
from fleet.kit.app_type import AppType, Bootstrap
from fleet.kit.driver import Problem
from fleet.kit.members import Ledger, MemberRecord, read_annotations
from fleet.kit.observe.world import Object, World, is_leaving, is_ready
from fleet.model.app import App
from fleet.model.types import release

A = TypeVar("A", bound=App)
Quorum = Literal["majority", "external", "none"]  # external: an agent beside the members decides
Joining = Literal["announced", "added", "itself"]


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """What git and the app type say of one kind of pod, as far as decisions need it."""

    container: str  # the name of the engine's container
    count: int  # pods that git wants
    name: str = ""  # "" is the first role
    files: str = ""  # the directory of configuration files in its pods
    volumes: tuple[tuple[str, str], ...] = ()  # name and size in git; the first holds the data
    deletes_volumes: bool = False  # whether the volume of a member that has left goes, too
    quorum: Quorum = "none"  # who has to agree before members come, go or restart
    bootstrap: Bootstrap = "alone"
    joining: Joining = "itself"
    votes: bool = False  # whether a member that has joined gets a vote once it has caught up
    tolerated_lag: int | None = None  # positions; a member that is so many behind is not in step. None: any number
    patience: float = 300.0  # seconds that a member has to come back after a restart, if it recovers nothing

    @property
    def stands_alone(self) -> bool:
        """Tell whether a member's data is its own alone, so that it goes on with it whenever it comes back."""
        return self.bootstrap == "alone" and self.quorum == "none"


def role_spec(app_type: AppType[A], app: A, name: str = "") -> RoleSpec:
    """Return what an app type declares of a role, with the values that an app gives it."""
    role = app_type.role(name)
    volume, adopted = getattr(app, "volume", None), names.adopted_sets(app).get(name)
    return RoleSpec(
        container=adopted.container if adopted is not None else role.container or names.engine(app),
        count=role.count(app),
        name=role.name,
        files=role.files,
        volumes=tuple((volume.name, volume.size(app)) for volume in role.volumes),
        deletes_volumes=getattr(volume, "on_scale_in", "keep") == "delete",
        quorum=app_type.quorum,
        bootstrap=role.bootstrap,
        joining=role.joining,
        votes=role.votes,
        patience=role.patience,
    )


@dataclass(frozen=True, slots=True)
class MemberState:
    """What one member says of itself. Nothing in it is believed of another member."""

    identity: str = ""  # of its cluster; "" if the engine has none
    member: str = ""  # its own id; "" if the engine has none
    role: str = ""  # in the engine's words: "primary", "learner"
    version: str = ""
    leads: bool = False
    obstacle: str = ""  # why it does not serve, for people: "it knows no leader"; "" if it serves
    position: int = 0  # how far it is: the entry, offset or transaction that it has applied
    newest: int = 0  # the newest position that it knows of, its own or another's
    knowledge: tuple[int, ...] = ()  # what to compare to find who knows most where members cannot agree: term and index
    votes: bool = True  # by its own account
    progress: str = ""  # what it is busy with before it can serve: "recovers its log, 40 %". No patience runs meanwhile
    accepts: Mapping[str, frozenset[str]] | None = None  # by user, marks of passwords; None: not known
    uses: Mapping[str, str] = field(default_factory=dict)  # by user, the mark of what it logs in with itself
    in_force: Mapping[str, str] = field(default_factory=dict)  # settings as it has them now (`AppType.setting_texts`)
    detail: Any = None  # the engine's own, for its own judgements


@dataclass(frozen=True, slots=True)
class Silence:
    """Why a member did not answer. It says nothing of how the member is."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Agreement:
    """The members as those have them whose word counts: a majority, or the agent that decides for the members."""

    members: Mapping[str, str]  # pod → the engine's id, of those on the list
    learners: frozenset[str] = frozenset()  # pods of members without a vote
    expected: frozenset[str] = frozenset()  # pods of members that are on the list and have never started
    strangers: Sequence[str] = ()  # addresses of members that are none of this app's pods
    detail: Any = None  # the engine's own


@dataclass(frozen=True)
class Observation(Generic[A]):
    """One reconcile's. `agreement` is None while those whose word counts could not be asked."""

    app: A
    world: World
    ledger: Ledger | None
    role: RoleSpec
    states: Mapping[str, MemberState] = field(default_factory=dict)  # by pod, of members that answered
    silences: Mapping[str, Silence] = field(default_factory=dict)  # by pod, of members that were asked in vain
    agreement: Agreement | None = None
    barred: tuple[Problem, ...] = ()  # what the app asks for and the operator's owner does not allow
    origins: tuple[str, ...] = ()  # patterns of namespaces beside its own whose backups it may start from
    unfit: Problem | None = None  # why what runs already cannot be adopted, as far as that can be read
    unreadable: str = ""  # why the ledger cannot be read: then nothing is known of what was begun
    others: tuple[Observation[A], ...] = ()  # of the app's other roles, in the observation of the first

    @property
    def roles(self) -> tuple[Observation[A], ...]:
        """Return the observations of all roles, of which this is the first."""
        return (self, *self.others)

    # Objects

    @property
    def stateful_set(self) -> Object | None:
        return self.world.get("StatefulSet", names.stateful_set(self.app, self.role.name))

    @property
    def replicas(self) -> int:
        found = self.stateful_set
        return int(found["spec"].get("replicas", 1)) if found else 0

    @property
    def pods(self) -> list[str]:
        """Return the pods that the StatefulSet has or makes."""
        found = self.stateful_set
        return pods_of(found) if found is not None else []

    def pod(self, ordinal: int) -> str:
        return names.pod(self.app, ordinal, self.role.name)

    def claim_of(self, pod: str) -> Object | None:
        """Return the claim of a pod's data."""
        return self.world.claim(names.claim(self.app, pod, self.role.volumes[0][0])) if self.role.volumes else None

    def claims_of(self, pod: str) -> list[tuple[str, Object]]:
        """Return a pod's claims, each with the size that git wants of it."""
        claims = [(size, self.world.claim(names.claim(self.app, pod, name))) for name, size in self.role.volumes]
        return [(size, claim) for size, claim in claims if claim is not None]

    def pod_stays(self, pod: str) -> bool:
        found = self.world.pod(pod)
        return found is not None and not is_leaving(found)

    # The ledger

    @property
    def records(self) -> Mapping[str, MemberRecord]:
        """Return the records of the role's members, by pod."""
        return self.ledger.of_role(self.role.name) if self.ledger else {}

    @property
    def recorded_pods(self) -> list[str]:
        """Return the pods that members have by the ledger, also while there is no StatefulSet, in the order of
        ordinals."""
        return in_order(self.records)

    # What members agree on

    @property
    def members(self) -> Mapping[str, str]:
        """Return the ids of the agreed members, by pod; none while nobody could be asked."""
        return self.agreement.members if self.agreement is not None else {}

    @property
    def learners(self) -> list[str]:
        agreement = self.agreement
        return [pod for pod in agreement.members if pod in agreement.learners] if agreement is not None else []

    @property
    def voters(self) -> list[str]:
        agreement = self.agreement
        return [pod for pod in agreement.members if pod not in agreement.learners] if agreement is not None else []

    @property
    def strangers(self) -> Sequence[str]:
        return self.agreement.strangers if self.agreement is not None else ()

    # What members say

    @property
    def leader(self) -> str | None:
        """Return the pod that leads, if it says so itself."""
        return next((pod for pod, state in self.states.items() if state.leads), None)

    @property
    def identities(self) -> set[str]:
        """Return the identities of the clusters that members say they belong to."""
        return {state.identity for state in self.states.values() if state.identity}

    @property
    def oldest_version(self) -> str | None:
        """Return the oldest version of the members that answered; None when none did."""
        versions = [state.version for state in self.states.values() if state.version]
        return min(versions, key=release) if versions else None

    def lag(self, pod: str) -> int:
        """Return by how many positions a member that answered is behind the one that knows most."""
        return max(state.newest for state in self.states.values()) - self.states[pod].position

    def is_behind(self, pod: str) -> bool:
        """Tell whether a member that answered is so far behind that it is not in step."""
        tolerated = self.role.tolerated_lag
        return tolerated is not None and self.lag(pod) >= tolerated

    def is_in_step(self, pod: str) -> bool:
        """Tell whether a member serves and has what the others have, as the engine itself has it.

        Where members agree on a list, it must be on that list as the very member that it says it is, and vote. An
        engine that nobody asks is as its kubelet has it.
        """
        state = self.states.get(pod)
        if state is None:
            return self.role.quorum == "none" and pod not in self.silences
        if state.obstacle or self.is_behind(pod):
            return False
        return self.role.quorum == "none" or (pod in self.voters and state.member == self.members[pod])

    def is_healthy(self, pod: str) -> bool:
        """Tell whether a member is in step, and ready in the words of its kubelet."""
        return self.is_in_step(pod) and is_ready(self.world.pod(pod))

    @property
    def healthy_pods(self) -> list[str]:
        pods = self.pods if self.role.quorum == "none" else self.voters
        return in_order(pod for pod in pods if self.is_healthy(pod))

    @property
    def unwell_pods(self) -> list[str]:
        return [pod for pod in self.pods if not self.is_healthy(pod)]

    # Majorities

    def is_majority_without(self, pod: str) -> bool:
        """Tell whether the other healthy members are a majority of all voters while this one is away."""
        others = [one for one in self.healthy_pods if one != pod]
        return len(others) > len(self.voters) // 2

    def is_majority_after(self, pod: str) -> bool:
        """Tell whether the other healthy members are a majority of the voters once this one is off the list."""
        others = [one for one in self.healthy_pods if one != pod]
        return len(others) > (len(self.voters) - 1) // 2

    @property
    def is_ready_majority(self) -> bool:
        """Tell whether kubelets call more than half of the pods ready."""
        return sum(is_ready(self.world.pod(pod)) for pod in self.pods) > len(self.pods) // 2

    @property
    def is_served(self) -> bool | None:
        """Tell whether clients are. None: kubelets call a majority ready, which the operator does not reach."""
        if self.role.quorum == "none":
            return bool(self.healthy_pods)
        if self.agreement is not None:
            return True
        return None if self.is_ready_majority else False

    # Permissions

    def barred_fields(self, field: str) -> list[Problem]:
        """Return what the operator's owner does not allow about one field of the app."""
        return [problem for problem in self.barred if problem.field == field]


def pods_of(stateful_set: Object) -> list[str]:
    """Return the pods that a StatefulSet has or makes: not more than any app has, whoever wrote it."""
    spec, name = stateful_set["spec"], stateful_set["metadata"]["name"]
    start = int(spec.get("ordinals", {}).get("start", 0))
    return [f"{name}-{start + number}" for number in range(min(int(spec.get("replicas", 1)), names.MOST_MEMBERS))]


def ledger_in(app: App, world: World, labels: Mapping[str, str]) -> Ledger | None:
    """Return the ledger of an app as it is. That of one that was given back has none of these labels, and says what was
    then.

    Raises ValueError for a ledger that is none: a user of the namespace may have written it.
    """
    own: Object = (world.get("ConfigMap", names.members_map(app)) or {}).get("metadata", {})
    ours = labels.items() <= (own.get("labels") or {}).items()
    return read_annotations(own.get("annotations") or {}) if ours else None


def in_order(pods: Iterable[str]) -> list[str]:
    """Return pods in the order of their ordinals."""
    return sorted(pods, key=names.ordinal)


def ledger_of(observation: Observation[Any]) -> Ledger:
    """Return the ledger of an app whose members have begun: it is written before anything else."""
    assert observation.ledger is not None  # noqa: S101 - bootstrap saw to it
    return observation.ledger


def set_of(observation: Observation[Any]) -> Object:
    """Return the StatefulSet of an app whose members have begun."""
    found = observation.stateful_set
    assert found is not None  # noqa: S101 - bootstrap saw to it
    return found
