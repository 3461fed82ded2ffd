"""The amount of one namespace's objects that an operator keeps in its memory, which all namespaces share. Pure.

A user who may create objects in a namespace can create any number, with any labels. So what caches hold of a namespace
has a bound, which grows with the objects that the operator is for. Beyond it nothing of a kind is kept: passes there
are blocked and say why, and those elsewhere go on.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet.errors import ResourceError
from fleet.kube.runtime.cache import Name

LEAST = 16 << 20  # bytes of JSON, however few objects of the controller's kind there are
EACH = 256 << 10  # for each of them; an etcd of seven members has about 100 KiB
REST_SECONDS = 300.0  # until objects that were too many are listed again


class TooMuchError(ResourceError):
    """Error for more objects than may be kept of a namespace."""


class MemoryBudget:
    """Bytes that the informers of one namespace may keep. `objects` counts those that the controller is for."""

    def __init__(self, objects: Callable[[], int]) -> None:
        self._objects = objects
        self.used = 0

    @property
    def most(self) -> int:
        return LEAST + EACH * self._objects()

    def take(self, size: int) -> bool:
        """Return whether there is room for so many bytes more, which then count as used."""
        if size > 0 and self.used + size > LEAST and self.used + size > self.most:
            return False
        self.used += size
        return True


class Share:
    """Bytes that one informer uses of a budget, by object; without a budget anything fits."""

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self._budget = budget
        self._sizes: dict[Name, int] = {}

    @property
    def is_limited(self) -> bool:
        return self._budget is not None

    def put(self, name: Name, size: int) -> None:
        """Count an object. Raise TooMuchError if it does not fit.

        Nothing counts any more then, since nothing is kept.
        """
        if self._budget is None:
            return
        if not self._budget.take(size - self._sizes.get(name, 0)):
            used, most = self._budget.used, self._budget.most
            self.clear()
            raise TooMuchError(
                f"objects with fleet's labels take more than {most >> 20} MiB in namespace {name.namespace}",
                hint=f"delete those that are no app's; {used >> 20} MiB are seen, and it is looked at again every "
                f"{REST_SECONDS / 60:g} minutes",
            )
        self._sizes[name] = size

    def remove(self, name: Name) -> None:
        """Stop counting an object."""
        if self._budget is not None:
            self._budget.take(-self._sizes.pop(name, 0))

    def keep(self, names: set[Name]) -> None:
        """Stop counting all objects but these."""
        for name in self._sizes.keys() - names:
            self.remove(name)

    def clear(self) -> None:
        """Stop counting all objects."""
        self.keep(set())
