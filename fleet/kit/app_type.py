"""The declaration of an app type: what is known of an engine without asking one.

An engine's package says which kinds of pods it has, their ports, probes and volumes, its settings with what a change
of each costs, and its versions. From that follow the objects (`pods`), the files (`files`), what the driver can do, and
what a plan says of a change. Nothing here does I/O.

In words of a command, `{pod}` is the pod's name, `{data}` the directory of its first volume, `{files}` the directory of
its configuration files, and `{file:NAME}` the path of its own file NAME. Only the words that start a container have
`{pod}` and `{file:…}`: kubelets fill in nothing in probes and hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from fleet.errors import ConfigurationError
from fleet.kit import names
from fleet.kit.adoption.layout import FoundSet
from fleet.kit.credentials.tls import Tls
from fleet.kit.driver import Capabilities, Driver, EngineMeta, Impact, Path, Problem, Refusal
from fleet.kit.members import LEDGER, MemberRecord
from fleet.kit.members import read as read_ledger
from fleet.kit.programs import Client
from fleet.kit.rights import ApiRule
from fleet.kit.versions import Versions
from fleet.model.app import App
from fleet.model.app_settings import Resources
from fleet.model.network_settings import exposure_of, metrics_of
from fleet.model.pod_settings import pods_of_app

if TYPE_CHECKING:
    from fleet.kit.adoption.discovery import Discovery
    from fleet.kit.adoption.rules import AdoptionRules
    from fleet.kit.credentials.users import User

A = TypeVar("A", bound=App)
USER = 65532  # the user of pods for which an image needs no other
METRICS = "metrics"  # the name of the port at which members say what they measure
Bootstrap = Literal["together", "seed", "alone", "agent"]


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a pod, and who reaches it through a Service."""

    name: str
    number: int
    # Clients find it in every Service of the role, members in the headless one alone, and probes ask the pod itself.
    used_by: Literal["clients", "members", "probes"] = "clients"


@dataclass(frozen=True, slots=True)
class Ready:
    """How a kubelet tells that a member may serve: exactly one of the three."""

    http: tuple[str, str] | None = None  # the path, and the name of the port
    tcp: str = ""  # the name of the port
    command: tuple[str, ...] = ()  # in the container; it ends with 0
    period: int = 2  # seconds
    timeout: int = 2  # seconds
    failures: int = 2  # in a row until the member is taken out of Services

    def __post_init__(self) -> None:
        if sum(map(bool, (self.http, self.tcp, self.command))) != 1:
            raise ValueError("a member is ready by http, tcp or a command: exactly one of them")


def _storage(app: App) -> str:
    return str(getattr(app, "storage", ""))


def _storage_class(app: App) -> str | None:
    name: str | None = getattr(getattr(app, "volume", None), "storage_class", None)
    return name


@dataclass(frozen=True)  # slots would forbid `DataVolume[…](…)`
class DataVolume(Generic[A]):
    """A volume that each pod of a role keeps, through a claim of its own."""

    path: str
    name: str = names.DATA  # of the claim template
    size: Callable[[A], str] = _storage
    storage_class: Callable[[A], str | None] = _storage_class


def _members(app: App) -> int:
    return int(getattr(app, "members", 1))


def _resources(app: App) -> Resources:
    resources: Resources = getattr(app, "resources", Resources())
    return resources


@dataclass(frozen=True)  # slots would forbid `Role[…](…)`
class Role(Generic[A]):
    """One kind of pod: a StatefulSet with a headless Service and a budget for evictions of its own."""

    command: tuple[str, ...]
    ports: tuple[Port, ...]
    ready: Ready
    arguments: tuple[str, ...] = ()
    name: str = ""  # "" is the first role, whose objects are called as the app
    container: str = ""  # its name; the engine's unless given
    count: Callable[[A], int] = _members  # of pods; a role with none has no objects
    resources: Callable[[A], Resources] = _resources
    volumes: tuple[DataVolume[A], ...] = ()  # the first holds the data
    files: str = ""  # the directory of its configuration files; "" if it reads none
    certificates: Mapping[str, str] = field(default_factory=dict)  # where Secrets of an encrypted app lie, by purpose
    environment: Mapping[str, str] = field(default_factory=dict)  # `{password:NAME}` is the password of a user
    scratch: tuple[str, ...] = ()  # directories that are empty at each start: the image itself cannot be written to
    prepare: tuple[tuple[str, ...], ...] = ()  # commands of the engine's own image that run before each start
    before_stop: tuple[str, ...] = ()  # the command that ends a member's work before it is told to end
    rights: tuple[ApiRule, ...] = ()  # what its process may do with the API server; without any it has no token
    user: int = USER
    grace: int = 30  # seconds that a member has to end
    patience: float = 300.0  # seconds until a restart that does not come back is a failure, if it recovers nothing
    bootstrap: Bootstrap = "alone"
    joining: Literal["announced", "added", "itself"] = "itself"
    votes: bool = False  # whether a member that has joined is given a vote as a step of its own

    def __post_init__(self) -> None:
        unfilled = [word for word in (*self.ready.command, *self.before_stop) if "{pod}" in word or "{file:" in word]
        if unfilled:
            raise ValueError(f"{unfilled[0]!r}: kubelets fill in no name of a pod in probes and hooks")

    def port(self, name: str) -> int:
        return next(port.number for port in self.ports if port.name == name)


@dataclass(frozen=True, slots=True)
class AppService:
    """A Service of the app beside the headless ones."""

    name: str = ""  # "" is called as the app, else APP-NAME
    role: str = ""  # whose ports it has
    to: Literal["ready", "every", "primary", "replicas"] = "ready"
    # Who says which pods it leads to: labels that a kubelet's word makes count, the engine's agent, or the operator.
    kept_by: Literal["selector", "agent", "operator"] = "selector"

    def __post_init__(self) -> None:
        if self.kept_by == "selector" and self.to in ("primary", "replicas"):
            raise ValueError(f"a Service to {self.to} needs an agent or the operator to keep it")


def _never(app: App) -> bool:
    return False


@dataclass(frozen=True)  # slots would forbid `Setting[…](…)`
class Setting(Generic[A]):
    """One setting of the engine, and what a change of it costs."""

    name: str  # as the engine's file has it
    value: Callable[[A], Any]  # None: it is left out, and the engine's own choice counts
    costs: Impact = Impact.RESTART  # RELOAD: not part of the revision, so that no pod restarts for it
    field: str = ""  # of the spec, where that has another name
    role: str = ""  # whose files have it
    follows: Callable[[A], bool] = _never  # whether it follows another field: members get it when they next restart


def setting_values(settings: Iterable[Setting[A]], app: A) -> dict[str, Any]:
    """Return the values that settings have for an app, by name, without those that are left to the engine."""
    values = {setting.name: setting.value(app) for setting in settings}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Remedy:
    """What the operator can do by itself about an alarm or a signal of a member."""

    name: str
    signal: str
    act: str
    risk: Literal["safe", "slow", "interrupts", "loses"]

    @property
    def needs_consent(self) -> bool:
        """Tell whether git must allow it: what may lose data is never done without that."""
        return self.risk == "loses"


# What a change of a field costs that means the same in every app type.
_IMPACTS: Mapping[str, Impact] = {
    "version": Impact.UPGRADE,
    "members": Impact.SCALE,
    "storage": Impact.GROW,
    "volume.storage_class": Impact.IMMUTABLE,
    "volume": Impact.NONE,
    "tls.enabled": Impact.RESTART,  # of members that a user set up without it; else it cannot be changed
    "tls.authority": Impact.RESTART,  # whom to trust is read at the start
    "tls": Impact.RELOAD,
    "passwords": Impact.RELOAD,
    "backup": Impact.NONE,
    "restore_from": Impact.NONE,
    "force_quorum": Impact.LOSS,
    "paused": Impact.NONE,
    "config": Impact.RESTART,
    "resources": Impact.RESTART,
    "image": Impact.RESTART,
    "pods": Impact.RESTART,
    "network": Impact.RESTART,  # members listen on other addresses
    "network.cluster_domain": Impact.RELOAD,
    "network.access": Impact.NONE,
    "metrics": Impact.NONE,
    "expose": Impact.RELOAD,  # members take a certificate with other names while they run
    "expose.type": Impact.NONE,
    "expose.annotations": Impact.NONE,
    "expose.node_ports": Impact.NONE,
    "expose.source_ranges": Impact.NONE,
    "expose.load_balancer_class": Impact.NONE,
    "expose.traffic_policy": Impact.NONE,
}


class AppType(Driver[A]):
    """An engine by its declaration. With `app`, `name`, `versions` and one role it is complete."""

    app: type[A]
    name: str  # as people write it: "etcd", "PostgreSQL"
    description: str = ""  # one sentence for the catalogue and `kubectl explain`
    short_names: tuple[str, ...] = ()  # for kubectl
    versions: Versions
    roles: tuple[Role[A], ...]
    services: tuple[AppService, ...] = (AppService(),)
    settings: tuple[Setting[A], ...] = ()
    options: str = ""  # the field with any other setting, by the engine's name for it
    costs: ClassVar[Mapping[str, Impact]] = {}  # of fields that are not settings, or cost something else here
    users: tuple[User, ...] = ()
    tls: Tls[A] | None = None
    remedies: tuple[Remedy, ...] = ()
    ranks: tuple[str, ...] = ("server",)  # of members in the engine's words, the one that takes writes first
    quorum: Literal["majority", "external", "none"] = "none"
    fewest: int = 1
    most: int = 9

    # What follows from the declaration

    @property
    def meta(self) -> EngineMeta:
        ports = {port.name: port.number for role in self.roles for port in role.ports}
        versions, shape = self.versions.series, (self.quorum, self.fewest, self.most)
        return EngineMeta(self.name, versions, self.ranks, ports, *shape, self.short_names, self.description)

    @property
    def caps(self) -> Capabilities:
        """Return what the type can do, by what is declared: no type can claim more."""
        fields = self.app.model_fields
        has_plan = type(self).backup_plan is not Driver.backup_plan  # it is not loaded: stacks may not
        return Capabilities(
            scale="members" in fields and self.fewest < self.most,
            upgrade="version" in fields,
            downgrade=bool(self.versions.back),
            backup="backup" in fields and has_plan,
            restore="restore_from" in fields and has_plan,
            adopt=type(self).discovery is not AppType.discovery or self.is_known_by_objects,
        )

    @property
    def impacts(self) -> Mapping[str, Impact]:
        settings: dict[str, Impact] = {}
        for setting in self.settings:  # a field that several settings follow costs what the dearest of them costs
            field = setting.field or setting.name
            settings[field] = Impact.RESTART if settings.get(field) is Impact.RESTART else setting.costs
        reloads = self.tls is not None and not self.tls.rolls_for_trust
        known = {**_IMPACTS, **({"tls.authority": Impact.RELOAD} if reloads else {}), **settings, **self.costs}
        fields = self.app.model_fields
        return {name: impact for name, impact in known.items() if name.partition(".")[0] in fields}

    def classify(self, field: str) -> Impact:
        """Return what it costs to change a field, an entry of `options` included. Unknown ones cost a restart."""
        if self.options and field.startswith(f"{self.options}."):
            name = field.removeprefix(f"{self.options}.")
            return next((setting.costs for setting in self.settings if setting.name == name), Impact.RESTART)
        return super().classify(field)

    def sidecar_problems(self, spec: A) -> list[Problem]:
        """Return what an app says of its sidecars that fleet's own containers forbid."""
        return [
            Problem("pods.sidecars", f"{sidecar.name} is what fleet's own container is called", "choose another name")
            for sidecar in pods_of_app(spec).sidecars
            if sidecar.name in self.container_names
        ]

    def exposure_problems(self, spec: A) -> list[Problem]:
        """Return what an app says of its Service that comes to nothing with this type."""
        expose, ports = exposure_of(spec), self.client_ports
        problems = [
            Problem("expose.node_ports", f"{self.name} has no port {chosen.port!r} for clients", ", ".join(ports))
            for chosen in expose.node_ports
            if chosen.port not in ports
        ]
        if expose.names and not self.is_encrypted(spec):
            problems.append(Problem("expose.names", "are for certificates, and the app has none", "leave them out"))
        if metrics_of(spec).service and self.metrics_port is None:
            problems.append(Problem("metrics.service", f"{self.name} has no port for metrics", "leave it out"))
        return problems

    @property
    def metrics_port(self) -> Port | None:
        """The port at which members say what they measure."""
        return next((port for port in self.roles[0].ports if port.name == METRICS), None)

    @property
    def client_ports(self) -> tuple[str, ...]:
        """The ports of the Service that is called as the app, by name."""
        role = self.role(self.services[0].role) if self.services else None
        return tuple(port.name for port in role.ports if port.used_by == "clients") if role else ()

    @property
    def container_names(self) -> tuple[str, ...]:
        """What the containers of members are called, whatever the role."""
        return tuple(dict.fromkeys(role.container or self.app.kind().lower() for role in self.roles))

    def role(self, name: str = "") -> Role[A]:
        """Return a role by its name. Raises KeyError for one that the type does not have."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)

    def roles_of(self, app: A) -> Iterator[Role[A]]:
        """Yield the roles of which the app has pods."""
        return (role for role in self.roles if role.count(app) > 0)

    def members(self, spec: A) -> int:
        return self.roles[0].count(spec)

    @property
    def further_kinds(self) -> tuple[str, ...]:
        """Return the kinds of objects that apps of this type have and those of most types have not."""
        accounts = ("ServiceAccount", "RoleBinding") if any(role.rights for role in self.roles) else ()
        return (*accounts, "EndpointSlice") if self.keeps_endpoints else accounts

    @property
    def keeps_endpoints(self) -> bool:
        """Tell whether the operator says where a Service of the type leads."""
        return any(service.kept_by == "operator" for service in self.services)

    def is_encrypted(self, app: A) -> bool:
        """Tell whether members present certificates of the app's own CAs."""
        return self.tls is not None and bool(getattr(getattr(app, "tls", None), "enabled", False))

    # Users

    def users_of(self, app: A) -> tuple[User, ...]:
        """Return the users of an app: those that every app of the type has, unless the type lets git name more."""
        return self.users

    def password_word(self, app: A) -> str:
        """Return git's word for the present generation of passwords; another one gives all users new ones."""
        return str(getattr(getattr(app, "passwords", None), "rotation", ""))

    def connection_texts(self, app: A) -> Mapping[str, str]:
        """Return what clients are given in the connection Secret; `{password:NAME}` is the password of a user."""
        connection = self.connection(app)
        members = [f"{connection.scheme}://{address}" for address in self.member_addresses(app)]
        login = next((user.name for user in self.users_of(app) if user.of == "clients"), "")
        return {
            "host": connection.host,
            "port": str(connection.port),
            "url": connection.url,
            "endpoints": ",".join(members) or connection.url,
            **({"username": login, "password": f"{{password:{login}}}"} if login else {}),
        }

    def member_addresses(self, app: A) -> list[str]:
        """Return host and port of each member for clients: none, where others set members up without names."""
        pods = [names.pod(app, ordinal) for ordinal in range(self.roles[0].count(app))]
        found = names.adopted_sets(app).get("")
        if not isinstance(found, FoundSet):
            return [f"{names.host(app, pod)}:{self.connection(app).port}" for pod in pods]
        return [f"{pod}.{found.service}.{app.namespace}.svc:{found.port}" for pod in pods if found.service]

    # Settings and files

    def setting_texts(self, app: A, role: Role[A]) -> dict[str, str]:
        """Return the settings of a role as members name what is in force: yes and no as "true" and "false"."""
        values = self.shared_settings(app, role).items()
        return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values}

    def takes_reload(self, app: A, role: Role[A], name: str) -> bool:
        """Tell whether members take another value of a setting while they run."""
        declared = [setting for setting in self.settings if (setting.name, setting.role) == (name, role.name)]
        return any(setting.costs is Impact.RELOAD and not setting.follows(app) for setting in declared)

    def shared_settings(self, app: A, role: Role[A]) -> dict[str, Any]:
        """Return the settings that are the same for every member of a role."""
        return setting_values((setting for setting in self.settings if setting.role == role.name), app)

    def is_in_revision(self, app: A, role: Role[A], name: str) -> bool:
        """Tell whether another value of a setting is another revision of the files, with which pods are made anew."""
        declared = [setting for setting in self.settings if (setting.name, setting.role) == (name, role.name)]
        return not any(setting.costs is Impact.RELOAD or setting.follows(app) for setting in declared)

    def files(self, app: A, pod: str, record: MemberRecord, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the configuration files of one member, by name. What they say about the cluster follows from the
        phase of its record, and counts only while the member has no data.
        """
        return {}

    def read_settings(self, files: Mapping[str, str]) -> Mapping[str, Any] | None:
        """Return the shared settings in files of an older revision, from which those are written anew while pods use
        them; None if they are kept as they are.
        """
        return None

    def client(self, spec: A) -> Client:
        raise ConfigurationError(
            f"the app type {self.name} does not say which program connects to its members",
            hint="`client` of an app type returns it; the Secret of its connection has what any client needs",
        )

    # What others set up

    def validate(self, spec: A, previous: A | None = None) -> list[Problem]:
        problems = [*super().validate(spec, previous), *self.sidecar_problems(spec), *self.exposure_problems(spec)]
        if spec.adoption is None:
            return problems
        if getattr(getattr(spec, "volume", None), "on_delete", "keep") == "delete":
            kept = "volumes of members that are taken over are kept when the app goes"
            problems.append(Problem("volume.on_delete", kept, "leave it out, and delete the claims by hand"))
        if getattr(spec, "restore_from", None) is not None:
            problems.append(Problem("restore_from", "members that are taken over have their data", "leave it out"))
        more = previous is not None and self.members(spec) > self.members(previous)
        if previous is not None and more and not self.adoption_rules().reads_files:
            words = f"{spec.name} was set up by others, and what a further member of it would need is not known"
            problems.append(Problem("members", words, f"leave it at {self.members(previous)}"))
        return problems

    @property
    def is_known_by_objects(self) -> bool:
        """Tell whether objects alone say what members are: nobody asks them anything, so nobody has to be let in by
        them."""
        return not self.engine and not self.users and self.tls is None

    def discovery(self) -> Discovery | None:
        """Return how it is recognised where others set it up: by the declaration, where objects alone say all of it.

        A type whose members are asked how they are has to say itself how they are asked who they are.
        """
        if not self.is_known_by_objects:
            return None
        from fleet.kit.adoption.declared import DeclaredDiscovery  # noqa: PLC0415 - for `fleet adopt` alone

        return DeclaredDiscovery(self)

    def adoption_rules(self) -> AdoptionRules[A, Any]:
        """Return what is known of the engine where others set it up: by the declaration, unless a type knows more."""
        from fleet.kit.adoption.declared import DeclaredAdoption  # noqa: PLC0415 - for apps that run already

        return DeclaredAdoption(self)

    def objection(self, spec: A, found: dict[str, Any]) -> str:
        from fleet.kit.adoption.objections import foresee  # noqa: PLC0415 - for apps that run already, and are new here

        known = foresee(self.adoption_rules(), spec, found)
        return known.message if known else ""

    def notes(self, spec: A) -> str:
        return names.members_map(spec) if self.caps.adopt else ""

    def stateful_sets(self, spec: A) -> tuple[str, ...]:
        rules = self.adoption_rules()
        return tuple(rules.set_name(spec, role.name) for role in self.roles_of(spec))

    def as_noted(self, spec: A, notes: Mapping[str, Any]) -> A:
        text = (notes["metadata"].get("annotations") or {}).get(LEDGER)
        layout = read_ledger(text).layout if text else {}
        return names.lay_out(spec, self.adoption_rules().load_layout(layout)) if layout else spec

    # Versions and images

    def path(self, current: str, target: str) -> Path:
        return self.versions.path(self.name, current, target)

    def image_template(self, images: Mapping[str, str]) -> str:
        """Return the template of images: the operator's for this engine, or the official one."""
        return images.get(self.app.kind().lower(), self.versions.image)

    def image(self, app: A, images: Mapping[str, str], present: str = "") -> str:
        """Return the image of members. `present` is what they have, as long as no restart of them was asked for."""
        own: str | None = getattr(app, "image", None)
        return own or self.versions.kept_image(self.version(app), self.image_template(images), present)

    def version_in(self, image: str, images: Mapping[str, str]) -> str | None:
        """Return the version that an image was made for by the same template; None if it was not."""
        return self.versions.version_in(image, self.image_template(images))

    def stays(self, spec: A, status: Mapping[str, Any]) -> str:
        """Say that the image of the next hop is the one that members have; "" if not, or if the status does not say."""
        running, known = status.get("version"), status.get("imageTemplate")
        present = {str(member.get("image") or "") for member in status.get("members") or ()}
        hops = self.path(str(running), self.version(spec)) if running else ()
        own: str | None = getattr(spec, "image", None)
        if isinstance(hops, Refusal) or not hops or not (own or known) or len(present) != 1:
            return ""
        target = hops[0].target
        image = own or self.versions.image_of(target, str(known))
        if {image} != present:
            return ""
        return f"stays {self.name} {running}: the image for {target} is {image}, which members have already"

    def unknown_release(self, spec: A) -> str:
        """Say that a version is newer than every patch of its series in this release of fleet; "" if it is not.

        It may have been released since, so that it is no error. What an image of the user's own runs is not judged.
        """
        version = self.version(spec)
        if getattr(spec, "image", None) or not self.versions.is_newer(version):
            return ""
        newest = self.versions.newest(version)
        return (
            f"{self.name} {version} is not known to this release of fleet, whose newest of the series is {newest}: "
            f"if there is no image of it, no member starts with it (write {newest!r} if that is meant)"
        )
