"""The names under which clients may reach the members of an app: what the certificates of its servers say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.model.app import App
from fleet.model.network_settings import network_of


def list_server_names(app: App, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the names of an app that fleet made: its Service's, and each member's own, which are `hosts`."""
    service = f"{app.name}.{app.namespace}.svc"
    full = f"{service}.{network_of(app).cluster_domain}"
    return (service, full, f"{app.name}.{app.namespace}", app.name, "localhost", *hosts)


def list_adopted_names(app: App, hosts: Sequence[str], pods: Sequence[str], headless: str) -> tuple[str, ...]:
    """Return the names of what others named: its Services by every name that DNS has for them, and its members'.

    `hosts` are the names by which members know each other, and `headless` is the Service in them; "" if there is none.
    """
    given = (app.adoption.service if app.adoption else None) or app.name
    services = (name for service in (given, app.name, headless) if service for name in names_of_service(app, service))
    members = (f"{pod}.{name}" for pod in pods for name in names_of_service(app, headless) if headless)
    return tuple(dict.fromkeys((*services, "localhost", *hosts, *members)))


def names_of_service(app: App, service: str) -> Iterator[str]:
    """Yield every name that DNS has for a Service of the app's namespace."""
    full = f"{service}.{app.namespace}.svc"
    yield from (service, f"{service}.{app.namespace}", full, f"{full}.{network_of(app).cluster_domain}")
