"""An app type as the reconciler knows engines: observed, decided and reported as all are, with what it alone answers.

A type without a half that acts is a program in pods: nobody asks its members, and their kubelets' word is all there is.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from fleet.kit import names
from fleet.kit.adoption.convergence import Pending, conditions
from fleet.kit.adoption.takeover import PlacedApp, list_sets, place_app
from fleet.kit.app_type import AppType
from fleet.kit.credentials.declared import certificates_of, list_keys, make_secrets
from fleet.kit.credentials.expiry import Expiry, describe_overdue, list_conditions, list_expiries
from fleet.kit.decide.command import remove_read_commands
from fleet.kit.decide.credentials import describe_users, refuse_lost_authority
from fleet.kit.decide.health import describe
from fleet.kit.decide.settings import describe_settings
from fleet.kit.decide.table import list_concerns
from fleet.kit.observe.answers import Answers, Images, image_in, images_of
from fleet.kit.observe.observation import MemberState, Observation, RoleSpec, Silence, in_order, role_spec
from fleet.kit.observe.world import World
from fleet.kit.operate.engine import ActingHalf, Allowed, Report, require_progress
from fleet.kit.operations.decide import operate, report
from fleet.kit.order import Concern, Concerns, Look
from fleet.kit.permissions import DEFAULT, Permissions
from fleet.kit.status import Conditions, LastBackup, MemberStatus
from fleet.kit.step import Act, Decision, Object, State, Step, blocked
from fleet.kit.workload import pods
from fleet.kit.workload.access import list_unasked_policies
from fleet.kit.workload.endpoints import make_endpoint_slices
from fleet.model.app import ROLL, App
from fleet.text import count_noun

A = TypeVar("A", bound=App)
T = TypeVar("T")
NOTED_LAG = 1000  # positions; below it, a member counts as in step and nothing is said
CLIENT_LIFE = datetime.timedelta(hours=12)
SETTLED_SECONDS = 10.0  # between two looks at an app that is well
KEPT_SECONDS = 2.0  # where clients find a new primary only after the next look


@dataclass(slots=True)
class _Client:
    value: Any
    mark: bytes
    until: datetime.datetime


class AppEngine(Generic[A]):
    """The engine of any app type. What an engine does in another way it overrides."""

    def __init__(
        self,
        app_type: AppType[A],
        images: Images,
        permissions: Permissions = DEFAULT,
        half: ActingHalf[A, Any] | None = None,
    ) -> None:
        self.app_type = app_type
        self.app: type[A] = app_type.app
        self.resource = app_type.resource
        self.images = images
        self._permissions = permissions
        self._half = half
        self._clients: dict[tuple[str, str], _Client] = {}  # open connections, and nothing else

    @property
    def further_kinds(self) -> Sequence[str]:
        return self.app_type.further_kinds

    def answers(self, observation: Observation[A]) -> Answers[A]:
        """Return what the app type makes of an observation."""
        return Answers(self.app_type, self.images, self.trust(observation))

    def trust(self, observation: Observation[A]) -> str:
        """Return the name of the set of CAs that members must trust; "" until there has been more than one."""
        certificates = certificates_of(self.app_type, observation.app, observation.world)
        authorities = certificates.authorities() if certificates is not None else None
        return authorities.trust if authorities is not None else ""

    # Objects

    def surroundings(self, app: A, world: World, now: datetime.datetime) -> list[Object]:
        """Return what must stand around members. Around members that others set up stands what they made already: they
        get Secrets alone, once taken."""
        if app.adoption is None:
            return [*self.around(app, world), *self.secrets(app, world, now)]
        placed = self.place(app, world)
        return self.secrets(placed.app, world, now) if placed.taken else []

    def hindrances(self, app: A, world: World) -> list[Object]:
        """Return policies that git asks for no more: one that kept the operator out would otherwise stay for ever."""
        return list_unasked_policies(self.app_type, app, world)

    def around(self, app: A, world: World) -> list[Object]:
        """Return Services and budgets.

        A Service that the operator's owner does not allow stays as it is, or is made for the cluster alone.
        """
        fields = {problem.setting for problem in self._permissions.problems(app, ())}
        refused = fields & {"expose", "metrics"}
        made = pods.surroundings(self.app_type, app.model_copy(update=dict.fromkeys(refused)) if refused else app)
        if "expose" in refused and world.get("Service", app.name) is not None:
            made = [found for found in made if (found["kind"], found["metadata"]["name"]) != ("Service", app.name)]
        return made

    def secrets(self, app: A, world: World, now: datetime.datetime) -> list[Object]:
        """Return the app's Secrets: passwords of users, certificates, and what clients are given."""
        return make_secrets(self.app_type, app, world, now)

    def keys(self, app: A, world: World) -> Sequence[str]:
        return list_keys(self.app_type, app, world)

    def attachments(self, observation: Observation[A]) -> list[Object]:
        """Return what follows from what was observed: where Services lead that the operator keeps. An engine that has
        more adds to it."""
        return make_endpoint_slices(self.app_type, observation)

    def data_of(self, app: A, world: World) -> list[Object]:
        """Return the claims of all roles; of an adopted app none, since its volumes stay."""
        if app.adoption is not None:
            return []
        volumes = [(role.name, volume.name) for role in self.app_type.roles for volume in role.volumes]
        first = {f"{volume}-{names.role_name(app, role)}-" for role, volume in volumes}
        claims = world.all("PersistentVolumeClaim")
        return [claim for claim in claims if claim["metadata"]["name"].rstrip("0123456789") in first]

    def keeps_data(self, app: A) -> bool:
        return bool(getattr(getattr(app, "volume", None), "on_delete", "keep") == "keep")

    # What others set up

    def place(self, app: A, world: World) -> PlacedApp[A]:
        """Return the app with its ledger, and with the names of what it took over or is to take over."""
        return place_app(self.app_type, app, world)

    def found_sets(self, app: A, world: World) -> Sequence[str]:
        """Return the names of the StatefulSets that others made and that are the app's, or are to be."""
        return list_sets(self.app_type, app, world) if app.adoption is not None else ()

    def as_known(self, placed: PlacedApp[A], observation: Observation[A]) -> Observation[A]:
        """Return what was observed of an app, with what its members say of what was only read of them so far."""
        return observation

    def pending(self, observation: Observation[A]) -> Pending | None:
        """Return what the engine brings with a later restart, beside what every adopted member gets with one."""
        return None

    # Observation

    async def observe(self, app: A, world: World) -> Observation[A]:
        """Ask all members how they are, then those whose word counts who the members are: of each role."""
        placed = self.place(app, world)
        if placed.unreadable:
            blank = Observation(app, world, None, self.role(app, self.app_type.roles[0].name))
            return self.judged(replace(blank, unreadable=placed.unreadable))
        client = None if placed.unfit else await self.client(placed.app, world)
        recorded = {record.role for record in placed.ledger.places.values()} if placed.ledger is not None else set()
        roles = [role.name for role in self.app_type.roles if role.count(app) > 0 or role.name in recorded]
        first, *others = [await self._observe_role(placed, world, client, role) for role in roles]
        return self.judged(self.as_known(placed, replace(first, others=tuple(others))))

    async def _observe_role(self, placed: PlacedApp[A], world: World, client: Any, role: str) -> Observation[A]:
        blank = Observation(placed.app, world, placed.ledger, self.role(placed.app, role), unfit=placed.unfit)
        return blank if self._half is None or client is None else await ask_members(self._half, client, blank)

    def role(self, app: A, name: str) -> RoleSpec:
        """Return what is known of a role. Where nobody asks members, nobody's agreement is waited for."""
        role = role_spec(self.app_type, app, name)
        return role if self._half is not None else replace(role, quorum="none")

    def judged(self, observation: Observation[A]) -> Observation[A]:
        """Return it with what the operator's owner does not allow. What members run already came from one who may make
        them."""
        image = getattr(observation.app, "image", None)
        own = {image} if image and self.app_type.version_in(image, self.images) is not None else set()
        barred = self._permissions.problems(observation.app, [*own, *images_of(observation)])
        found = pods.list_escalations_of(self.app_type, observation.app)
        nothing = self.app_type.exposure_problems(observation.app)
        return replace(observation, barred=(*barred, *found, *nothing), origins=self._permissions.restores)

    # Decisions

    def concerns(self, observation: Observation[A]) -> Concerns:
        """Return what is to be done about each concern, role by role."""
        looks: dict[Concern, Sequence[Look]] = {}
        for role in observation.roles:
            for concern, further in self.role_concerns(role).items():
                looks[concern] = (*looks.get(concern, ()), *further)
        looks[Concern.OPERATIONS] = (lambda: operate(observation, self.answers(observation)),)
        looks[Concern.HEALTH] = (*looks.get(Concern.HEALTH, ()), lambda: remove_read_commands(observation))
        problems = [problem for problem in observation.barred if problem.setting in ("image", "pods")]
        if not problems:
            return looks
        refused = blocked("NotAllowed", "; ".join(map(str, problems)))
        if observation.stateful_set is None or observation.ledger is None or not observation.ledger.identity:
            return {**looks, Concern.ADOPTION: (lambda: refused,)}
        return {**looks, Concern.REVIVAL: (), Concern.ROLL: (lambda: refused,)}  # members are looked after as they are

    def role_concerns(self, observation: Observation[A]) -> Concerns:
        """Return what is to be done about each concern of one role."""
        answers = self.answers(observation)
        looks = list_concerns(observation, answers)
        if self.app_type.tls is None or observation.role.name != self.app_type.roles[0].name:
            return looks
        return {
            **looks,
            Concern.FOUNDING: (lambda: refuse_lost_authority(observation, answers), *looks.get(Concern.FOUNDING, ())),
        }

    def at_rest(self, observation: Observation[A]) -> Decision:
        """Return what is said of an app with nothing to do."""
        answers = self.answers(observation)
        if refused := [problem for problem in observation.barred if problem.setting in ("expose", "metrics")]:
            return Decision(State.BLOCKED, "NotAllowed", "; ".join(map(str, refused)), (), SETTLED_SECONDS)
        if overdue := describe_overdue(self.expiries(observation), observation.world.now):
            return Decision(State.DEGRADED, "CertificatesOverdue", overdue, (), SETTLED_SECONDS)
        if observation.role.quorum == "majority" and "lead" in answers.acts and observation.leader is None:
            # One led when the others were asked, and had handed over when it was asked itself.
            return Decision(State.PROGRESSING, "Electing", "no member says that it leads: it changes now", (), 1.0)
        count, version = len(observation.healthy_pods), answers.running_version(observation) or ""
        leads = f", {observation.leader} leads" if observation.leader is not None else ""
        message = f"{count_noun(count, 'member')} of {answers.name} {version} in step{leads}"
        after = KEPT_SECONDS if self.app_type.keeps_endpoints else SETTLED_SECONDS
        return Decision(State.OK, "Healthy", message, (), after)

    def answer_operations(
        self, observation: Observation[A], concern: Concern | None, decision: Decision
    ) -> tuple[Step, ...]:
        """Return what people are told who asked for something."""
        return report(observation, self.answers(observation), concern, decision)

    async def act(self, observation: Observation[A], act: Act, allowed: Allowed) -> None:
        client = await self.client(observation.app, observation.world)
        if self._half is None or client is None:
            return
        pod = str(act.arguments.get("pod", ""))
        role = next((role for role in observation.roles if pod in (*role.pods, *role.records)), observation)
        require_progress(await self._half.act(client, role, act, allowed))

    # What people are told

    def report(self, observation: Observation[A], last_backup: LastBackup | None) -> Report:
        answers, roles = self.answers(observation), observation.roles
        members = [self._member(role, answers, pod) for role in roles for pod in in_order({*role.pods, *role.members})]
        return Report(
            version=answers.running_version(observation),
            desired_version=self._desired_version(observation, answers),
            image_template=self.app_type.image_template(self.images),
            members=tuple(members),
            wanted=sum(role.role.count for role in roles),
            leader=observation.leader,
            identity=(observation.ledger.identity or None) if observation.ledger else None,
            available=observation.is_served,
            last_backup=self.last_backup(observation, last_backup),
            conditions=(
                *self.conditions(observation, last_backup),
                *conditions(
                    observation,
                    self.pending(observation),
                    reads_files=observation.app.adoption is not None and self.app_type.adoption_rules().reads_files,
                ),
                *describe_users(observation, answers),
                *describe_settings(observation, answers),
                *list_conditions(self.expiries(observation), observation.world.now),
                *_rolled(observation),
            ),
        )

    def expiries(self, observation: Observation[A]) -> list[Expiry]:
        """Return when the certificates of an encrypted app end, those of its members and the one for clients."""
        app, declared = observation.app, self.app_type.tls
        if declared is None or not self.app_type.is_encrypted(app):
            return []
        own = [names.secret(app, certificate.name) for certificate in declared.certificates]
        are_ours = app.adoption is None or any(observation.world.get("Secret", name) for name in own)
        return list_expiries(observation.world, [*own, names.secret(app, "connection")], are_ours=are_ours)

    def last_backup(self, observation: Observation[A], known: LastBackup | None) -> LastBackup | None:
        """Return the newest backup: `known` is that of the status."""
        return known

    def conditions(self, observation: Observation[A], last_backup: LastBackup | None) -> Conditions:
        """Return further conditions of the app."""
        return ()

    def _desired_version(self, observation: Observation[A], answers: Answers[A]) -> str:
        image = answers.image(observation, observation.app)
        present = self.app_type.version_in(image, self.images)
        is_exact = present is not None and not self.app_type.versions.is_series(present)
        return present if present is not None and is_exact else self.app_type.version(observation.app)

    def _member(self, observation: Observation[A], answers: Answers[A], pod: str) -> MemberStatus:
        state = observation.states.get(pod)
        lag = observation.lag(pod) if state is not None else 0
        image = image_in(observation, observation.world.pod(pod) or {})
        version = state.version if state is not None else None
        if observation.role.quorum == "none" and state is None and image:
            version = answers.version_of(observation, image)
        return MemberStatus(
            name=pod,
            id=observation.members.get(pod) or (state.member if state is not None else None) or None,
            role=(state.role if state is not None else "") or (observation.role.name if state is None else "") or None,
            version=version or None,
            image=image or None,
            ready=observation.is_healthy(pod),
            state=_state(observation, pod),
            lag=lag if lag > NOTED_LAG else None,
            alarms=answers.alarms(observation, pod),
            volume=names.claim(observation.app, pod) if observation.claim_of(pod) else None,
        )

    # Connections

    async def client(self, app: A, world: World) -> Any:
        """Return the client of an app, made anew with other credentials and after a time; None while there are none."""
        half = self._half
        connector = half.connector(app, world) if half is not None else None
        if connector is None:
            return None
        name, now = (app.namespace, app.name), world.now
        known = self._clients.get(name)
        if known is not None and known.mark == connector.mark and now < known.until:
            return known.value
        await self.forget(name)
        self._clients[name] = _Client(await connector.open(), connector.mark, now + CLIENT_LIFE)
        return self._clients[name].value

    async def forget(self, name: Any) -> None:
        """Close the connections to an app that is gone."""
        known = self._clients.pop(name, None)
        if known is not None and self._half is not None:
            await self._half.close(known.value)

    async def close(self) -> None:
        """Close all connections."""
        for name in list(self._clients):
            await self.forget(name)


async def ask_members(half: ActingHalf[A, T], client: T, blank: Observation[A]) -> Observation[A]:
    """Ask the members of a role how they are, all at once, and then who they are."""
    asked = list(dict.fromkeys([*blank.pods, *blank.recorded_pods]))
    replies = dict(zip(asked, await asyncio.gather(*(half.probe(client, blank, pod) for pod in asked)), strict=True))
    states = {pod: state for pod, state in replies.items() if isinstance(state, MemberState)}
    silences = {pod: silence for pod, silence in replies.items() if isinstance(silence, Silence)}
    observation = replace(blank, states=states, silences=silences)
    return replace(observation, agreement=await half.membership(client, observation))


def _rolled(observation: Observation[Any]) -> Conditions:
    """Say whether every member was restarted for the last `fleet roll`, whose word is the message."""
    word = observation.app.roll
    if not word:
        return ()
    found = [role.world.pod(pod) or {"metadata": {}} for role in observation.roles for pod in role.pods]
    through = all((pod["metadata"].get("annotations") or {}).get(ROLL) == word for pod in found)
    return (("Rolled", "True" if through else "False", "Rolled" if through else "Rolling", word),)


def _state(observation: Observation[Any], pod: str) -> Any:
    if names.ordinal(pod) >= observation.role.count:
        return "leaving"
    if observation.is_healthy(pod):
        return "running"
    if pod in observation.learners or observation.ledger is None or not observation.ledger.identity:
        return "joining"
    return "failed" if "ended" in describe(observation, pod) else "unknown"
