"""A type whose members talk to the API server themselves, as Patroni does: one role with rights, and one without."""

from __future__ import annotations

from typing import ClassVar

from fleet.kit.app_type import AppType, Port, Ready, Role
from fleet.kit.rights import ApiRule
from fleet.kit.versions import Versions
from fleet.model.app import App
from fleet.model.app_settings import Resources
from fleet.model.types import Version


class Talker(App, frozen=True):
    """A server that says in its own pod how it is."""

    version: Version
    """The version to run."""
    members: int = 2
    """How many servers."""
    watchers: int = 1
    """How many pods that watch them."""
    resources: Resources = Resources()
    """CPU and memory."""

    port: ClassVar[int] = 8008


class TalkerType(AppType[Talker]):
    contract = 1
    app = Talker
    name = "Talker"
    versions = Versions({"1": "1.0"}, "docker.io/library/talker:{version}", parts=1)
    roles = (
        Role[Talker](
            command=("talker",),
            ports=(Port("client", 8008),),
            ready=Ready(tcp="client"),
            rights=(
                ApiRule("", ("pods",), ("get", "list", "watch", "patch")),
                ApiRule("", ("configmaps",), ("create",)),
                ApiRule("", ("configmaps",), ("get", "patch"), names=("leader",)),
            ),
        ),
        Role[Talker](
            name="watcher",
            command=("watcher",),
            ports=(Port("watcher", 8009),),
            ready=Ready(tcp="watcher"),
            count=lambda app: app.watchers,
        ),
    )


TYPE = TalkerType()
