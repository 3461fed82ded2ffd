"""Gives the operator its rights in namespaces whose apps come from no stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleet.errors import NotFoundError
from fleet.install.apply import Done, apply_all, get
from fleet.install.manifests import LABELS
from fleet.kube.client import Client
from fleet.model.desired import Key
from fleet.render.rights import binding


async def allow(client: Client, namespaces: Sequence[str], *, take_over: bool, tell: Callable[[Done], None]) -> None:
    for namespace in namespaces:
        if await get(client, Key("", "Namespace", "", namespace)) is None:
            raise NotFoundError(
                f"{client.place}: there is no namespace {namespace!r}",
                hint=f"kubectl create namespace {namespace}{client.place.flag}",
            )
    manifests = [binding(namespace) for namespace in namespaces]
    labelled = [{**one, "metadata": {**one["metadata"], "labels": LABELS}} for one in manifests]
    await apply_all(client, labelled, take_over=take_over, tell=tell)
