"""What the objects of an app are called, and their labels. The same for ever: data hangs on these names.

The first role of an app type has the app's own name; every other role adds its name. An app that a user set up without
fleet keeps the names of its StatefulSet and claims: its layout is asked first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from fleet.model.app import App

A = TypeVar("A", bound=App)
LAYOUT = "_layout"  # the attribute of an adopted app: where its layout is kept during a reconcile
DATA = "data"  # the claim template of members' data
MOST_MEMBERS = 64  # of a role that are looked at: a user who may write a StatefulSet can ask for any number


class AdoptedSet(Protocol):
    """A StatefulSet that a user set up without fleet, whose names the app keeps."""

    @property
    def stateful_set(self) -> str: ...
    @property
    def container(self) -> str: ...  # the engine's
    @property
    def claim(self) -> str: ...  # the claim template that holds the data; "" if there is none
    @property
    def baseline(self) -> Mapping[str, Any]: ...  # what git said of it when it was taken over


class AdoptedNames(Protocol):
    """What a user set up without fleet, as an app keeps it."""

    @property
    def sets(self) -> Mapping[str, AdoptedSet]: ...  # by role; "" is the first


def adopted_names(app: App) -> AdoptedNames | None:
    """Return the names that an adopted app keeps; None for an app that fleet made."""
    layout: AdoptedNames | None = app.__dict__.get(LAYOUT)
    return layout


def adopted_sets(app: App) -> Mapping[str, AdoptedSet]:
    """Return the StatefulSets whose names an adopted app keeps, by role; none for an app that fleet made."""
    layout = adopted_names(app)
    return layout.sets if layout is not None else {}


def lay_out(app: A, layout: AdoptedNames) -> A:
    """Return the app with the names that it was found with."""
    made = app.model_copy()
    made.__dict__[LAYOUT] = layout
    return made


def engine(app: App) -> str:
    """Return the engine's name as labels and options of commands have it, such as "etcd"."""
    return app.kind().lower()


def role_name(app: App, role: str = "") -> str:
    """Return what the objects of a role are called."""
    return f"{app.name}-{role}" if role else app.name


def stateful_set(app: App, role: str = "") -> str:
    adopted = adopted_sets(app).get(role)
    return adopted.stateful_set if adopted is not None else role_name(app, role)


def pod(app: App, ordinal: int, role: str = "") -> str:
    return f"{stateful_set(app, role)}-{ordinal}"


def ordinal(pod: str) -> int:
    return int(pod.rpartition("-")[2])


def claim(app: App, pod: str, volume: str = DATA) -> str:
    """Return the name of a pod's claim, as its StatefulSet makes it."""
    adopted = adopted_sets(app)
    own = next((found for found in adopted.values() if pod.rpartition("-")[0] == found.stateful_set), adopted.get(""))
    return f"{own.claim if own is not None and volume == DATA else volume}-{pod}"


def peers_service(app: App, role: str = "") -> str:
    """Return the headless Service by which members find each other."""
    return f"{role_name(app, role)}-peers"


def metrics_service(app: App) -> str:
    """Return the Service by which what members measure is found."""
    return f"{app.name}-metrics"


def host(app: App, pod: str, role: str = "") -> str:
    """Return the name that members and the operator know a member by; no part of it changes with a restart."""
    return f"{pod}.{peers_service(app, role)}.{app.namespace}.svc"


def account(app: App, role: str = "") -> str:
    """Return the ServiceAccount of a role's members, if they have one: never "default", whatever the app is called."""
    return f"{role_name(app, role)}-member"


def members_map(app: App) -> str:
    """Return the ConfigMap with the ledger and the members' files."""
    return f"{app.name}-members"


def secret(app: App, purpose: str) -> str:
    """Return the Secret for a purpose, such as "server"."""
    return f"{app.name}-{purpose}"


def labels(app: App, role: str = "") -> dict[str, str]:
    """Return the labels of an app's objects."""
    component = {"app.kubernetes.io/component": role} if role else {}
    return {
        **selector(app, role),
        **component,
        "app.kubernetes.io/managed-by": "fleet-operator",
        "fleet.dev/app": app.name,
        "fleet.dev/kind": app.kind(),
    }


def selector(app: App, role: str = "") -> dict[str, str]:
    """Return what selects the pods of one role, and of no other: each has an `app.kubernetes.io/name` of its own."""
    name = f"{engine(app)}-{role}" if role else engine(app)
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": app.name}


def metadata(app: App, name: str, role: str = "", **more: Any) -> dict[str, Any]:
    """Return the metadata of an object of the app."""
    return {"name": name, "namespace": app.namespace, "labels": labels(app, role), **more}
