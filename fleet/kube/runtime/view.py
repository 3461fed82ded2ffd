"""What a controller sees: a cache for each kind that it watches, and whether it can be relied on.

There is one view of everything, or (`per_namespace`) one of each namespace that has objects of the controller's kind.
The latter needs no rights on other kinds beyond those namespaces, so rights can be missing in one of them: passes
there are told what is missing (`blocked`), all others go on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.errors import AccessError, FleetError, ResourceError
from fleet.kube.discovery import Resource
from fleet.kube.runtime.cache import Cache, Index
from fleet.kube.runtime.follow import Follower
from fleet.kube.runtime.mapping import Mapping as Mapped
from fleet.kube.runtime.predicate import Predicate, always

GRACE = 3.0  # rights often come a moment after the object that needs them
PATIENCE = 15.0  # for lists that neither end nor fail


@dataclass(frozen=True, slots=True)
class Watch:
    """Objects of another kind whose changes matter, and whose: `of` maps one to the keys of the controller's kind."""

    resource: Resource
    of: Mapped
    when: Predicate = always
    labels: Mapping[str, str] = field(default_factory=dict)
    indexes: Mapping[str, Index] = field(default_factory=dict)  # for `request.cache(resource).by(name, value)`


class NoRightsError(AccessError):
    """The server does not let us see these kinds (plurals) there; `said` is its answer. Namespace "" is all of them."""

    def __init__(self, namespace: str, kinds: tuple[str, ...], said: str, hint: str | None) -> None:
        where = f"in namespace {namespace}" if namespace else "in the cluster"
        super().__init__(f"no right to list and watch {', '.join(kinds)} {where}: {said}", hint=hint)
        self.namespace = namespace
        self.kinds = kinds
        self.said = said


class NotSeenError(ResourceError):
    """These kinds (plurals) could not be listed there, for another reason than rights."""

    def __init__(self, namespace: str, kinds: tuple[str, ...], said: str) -> None:
        where = f"in namespace {namespace}" if namespace else "in the cluster"
        super().__init__(f"cannot see {', '.join(kinds)} {where}: {said}")
        self.namespace = namespace
        self.kinds = kinds
        self.said = said


class View:
    """The caches for the passes of one namespace, or of all."""

    def __init__(self, namespace: str, followers: Mapping[Resource, Follower], opened: float | None = None) -> None:
        self.namespace = namespace
        self.followers = followers
        self.caches = [follower.cache for follower in followers.values()]
        self.passes = 0  # under way
        self.told: str | None = None  # what passes know of `blocked`
        self._opened = time.monotonic() if opened is None else opened

    def cache(self, resource: Resource) -> Cache:
        """Raises rather than give a cache that is empty because nothing could be seen."""
        follower = self.followers[resource]
        if _reliable(follower, time.monotonic()):
            return follower.cache
        raise self._problem([follower])

    def ready_in(self, now: float | None = None) -> float:
        """Seconds until a pass makes sense, at most: 0 when all is seen, or clearly will not be soon."""
        now = time.monotonic() if now is None else now
        missing = self._missing(now)
        if not missing:
            return 0.0
        failing = any(follower.problem for follower in missing)
        return max(0.0, self._opened + (GRACE if failing else PATIENCE) - now)

    def blocked(self, now: float | None = None) -> FleetError | None:
        """What keeps passes from seeing the world as it is; None when they do."""
        missing = self._missing(time.monotonic() if now is None else now)
        return self._problem(missing) if missing else None

    def _missing(self, now: float) -> list[Follower]:
        return [follower for follower in self.followers.values() if not _reliable(follower, now)]

    def _problem(self, missing: list[Follower]) -> FleetError:
        denied = [follower for follower in missing if isinstance(follower.problem, AccessError)]
        kinds = tuple(follower.cache.resource.plural for follower in denied or missing)
        if denied and denied[0].problem:
            return NoRightsError(self.namespace, kinds, denied[0].said, denied[0].problem.hint)
        said = next((follower.said for follower in missing if follower.problem), "the lists are not complete yet")
        return NotSeenError(self.namespace, kinds, said)


def _reliable(follower: Follower, now: float) -> bool:
    """It was complete once and is kept so. A broken connection comes back and loses nothing; a refusal lasts."""
    return follower.cache.synced and follower.denied_for(now) < GRACE
