"""What is observed of an etcd: what members say and agree on in the kit's words, and what is etcd's own in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fleet.apps.etcd import names
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.protocol import Alarm, Endpoint, Member, MemberStatus
from fleet.apps.etcd.files import quota
from fleet.apps.etcd.spec import Etcd
from fleet.kit.members import Ledger
from fleet.kit.observe.observation import Agreement, MemberState, Observation, RoleSpec, Silence, role_spec
from fleet.kit.observe.world import World, address

EtcdObservation = Observation[Etcd]
BEHIND = 5_000  # entries of the log; a member that is further behind is not in step
FULL = 0.9  # of the quota in use: above it, a smaller file would be full again at once


def endpoint(app: Etcd, world: World, pod: str) -> Endpoint | None:
    found = address(world.pod(pod))
    return Endpoint(found, names.client_port(app), names.host(app, pod)) if found else None


def make_observation(
    app: Etcd,
    world: World,
    ledger: Ledger | None,
    statuses: Mapping[str, MemberStatus] | None = None,
    *,
    silent: Mapping[str, str] | None = None,
    members: Sequence[Member] | None = None,
) -> EtcdObservation:
    """Return an observation by what members of etcd said, and by the list that a majority agreed on, if one did."""
    return Observation(
        app,
        world,
        ledger,
        as_etcd(role_spec(DRIVER, app)),
        {pod: make_state(status) for pod, status in (statuses or {}).items()},
        {pod: Silence(reason) for pod, reason in (silent or {}).items()},
        None if members is None else make_agreement(app, members),
    )


# What is etcd's own in an observation


def statuses_of(observation: EtcdObservation) -> dict[str, MemberStatus]:
    """Return what members said of themselves, by pod."""
    return {pod: state.detail for pod, state in observation.states.items()}


def members_of(observation: EtcdObservation) -> tuple[Member, ...] | None:
    """Return the list of members by a linearizable read, so a majority agreed on it. None: there is none to ask."""
    return tuple(observation.agreement.detail) if observation.agreement is not None else None


def members_by_pod(observation: EtcdObservation) -> dict[str, Member]:
    """Return the agreed members, by the pod behind their peer URL."""
    return _by_pod(observation.app, members_of(observation) or ())


def alarms_of(observation: EtcdObservation) -> tuple[Alarm, ...]:
    """Return the alarms that any member knows of."""
    return tuple(dict.fromkeys(alarm for status in statuses_of(observation).values() for alarm in status.alarms))


def is_crowded(observation: EtcdObservation) -> bool:
    """Tell whether nearly all of the quota is in use: by old revisions perhaps, perhaps by live data, which nobody can
    free."""
    limit = FULL * quota(observation.app)
    return any(status.db_size_in_use > limit for status in statuses_of(observation).values())


def as_etcd(role: RoleSpec) -> RoleSpec:
    """Return a role with what etcd alone knows of it."""
    return replace(role, tolerated_lag=BEHIND)


def make_state(status: MemberStatus) -> MemberState:
    """Return what a member of etcd said of itself."""
    return MemberState(
        identity=f"{status.cluster_id:x}",
        member=f"{status.member_id:x}",
        role="learner" if status.is_learner else "leader" if status.leads else "follower",
        version=status.version,
        leads=status.leads,
        obstacle="" if status.leader else "it knows no leader",
        position=status.raft_applied_index,
        newest=status.raft_index,
        knowledge=(status.raft_term, status.raft_index),
        votes=not status.is_learner,
        detail=status,
    )


def make_agreement(app: Etcd, members: Sequence[Member]) -> Agreement:
    """Return the list of members by the pods behind their peer URLs."""
    by_pod = _by_pod(app, members)
    known = {member.id for member in by_pod.values()}
    return Agreement(
        {pod: f"{member.id:x}" for pod, member in by_pod.items()},
        frozenset(pod for pod, member in by_pod.items() if member.is_learner),
        frozenset(pod for pod, member in by_pod.items() if not member.started),
        tuple(", ".join(member.peer_urls) or f"{member.id:x}" for member in members if member.id not in known),
        tuple(members),
    )


def _by_pod(app: Etcd, members: Sequence[Member]) -> dict[str, Member]:
    found = {}
    for member in members:
        for url in member.peer_urls:
            if (pod := names.pod_of_peer_url(app, url)) is not None:
                found[pod] = member
    return found
