"""Put a worker into its sandbox, in the order that the layers need; after this no step of it can be taken back.

    forked      into mounts and process numbers of its own
    shut        environment and descriptors: nothing is left of whoever started us
    walled      the view in the place of the file system, no privileges, Landlock: threads started later inherit it
    …           the limits and their watchdog thread are the worker's own business, in between
    filtered    seccomp, last: the calls that all of the above needed are refused from then on

If anything fails an OSError says what, and the worker must end without a line of user code.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleet.evaluate.sandbox import filter as calls
from fleet.evaluate.sandbox import kernel, landlock, namespaces, privileges
from fleet.evaluate.sandbox.level import Layer
from fleet.evaluate.sandbox.view import View

KEPT_VARIABLES = frozenset({"TZ", "LANG", "PYTHONHASHSEED", "PYTHONUTF8"})  # the same everywhere, and no secrets


@dataclass(frozen=True, slots=True)
class Cell:
    """What a worker of this zygote is put into."""

    layers: frozenset[Layer]
    view: View

    def without(self, layers: frozenset[Layer]) -> Cell:
        return replace(self, layers=self.layers - layers) if layers else self

    @property
    def writing(self) -> bool:
        """Whether there is a private /tmp."""
        return Layer.VIEW in self.layers

    def prepare(self) -> None:
        """What is the same for all workers, before they are forked."""
        if Layer.SECCOMP in self.layers and kernel.MACHINE is not None:
            calls.common(kernel.MACHINE, writing=self.writing)

    def fork(self) -> int:
        return namespaces.fork(self.layers)

    def shut(self, kept: Iterable[int]) -> None:
        if Layer.ENVIRONMENT in self.layers:
            for name in os.environ.keys() - KEPT_VARIABLES:
                del os.environ[name]
        if Layer.DESCRIPTORS in self.layers:
            close_all_but(kept)

    def wall(self, root: str, *more: str) -> None:
        """Around the tree, and whatever else may be read."""
        if Layer.VIEW in self.layers:
            self.view.mount(root, *more)
        if Layer.PRIVILEGES in self.layers:
            privileges.keep_none()
        elif not self.layers.isdisjoint({Layer.LANDLOCK, Layer.SECCOMP}):
            privileges.forgo_new_ones()
        if Layer.LANDLOCK in self.layers:
            landlock.restrict(self.view.granted(root, *more, writing=self.writing))

    def filter(self) -> None:
        if Layer.SECCOMP in self.layers:
            assert kernel.MACHINE is not None  # noqa: S101 - no level has this layer without
            calls.restrict(calls.confined(kernel.MACHINE, os.getpid(), writing=self.writing))


def close_all_but(kept: Iterable[int]) -> None:
    """Every descriptor of this process except these."""
    above = 0
    for descriptor in sorted(kept):
        if above < descriptor:  # an empty range would mean all of them to the kernel
            os.closerange(above, descriptor)
        above = descriptor + 1
    os.closerange(above, max(os.sysconf("SC_OPEN_MAX"), above + 1))
