"""Install the operator in one cluster, or bring it up to this release: the same thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleet.errors import ConflictError
from fleet.install.apply import Done, apply_all, get, is_ours
from fleet.install.manifests import Settings, budget, manifests, settings_of
from fleet.install.remove import delete
from fleet.install.rollout import DEPLOYMENT, rolled_out
from fleet.kube.client import Client
from fleet.model.desired import Key

Tell = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Installed:
    settings: Settings
    done: tuple[Done, ...]
    ready: bool  # it was waited for, and all replicas are


async def install(
    client: Client, settings: Settings, *, take_over: bool, wait: bool, seconds: float, tell: Tell
) -> Installed:
    def applied(one: Done) -> None:
        tell("applying", str(one.key))

    done = await apply_all(client, manifests(settings), take_over=take_over, tell=applied)
    if settings.replicas == 1:  # from before, when there were more
        done += await _without_budget(client)
    if wait:
        await rolled_out(client, seconds=seconds, tell=tell)
    return Installed(settings, tuple(done), ready=wait)


async def settings_now(client: Client) -> Settings | None:
    """What is installed, if it is ours."""
    found = await get(client, DEPLOYMENT)
    return settings_of(found) if found is not None and is_ours(found) else None


async def _without_budget(client: Client) -> list[Done]:
    key = Key.of(budget())
    found = await get(client, key)
    if found is None or not is_ours(found):
        return []
    if not await delete(client, key, found):
        raise ConflictError(f"{client.place}: {key} was changed meanwhile", hint="install again")
    return [Done(key, "deleted")]
