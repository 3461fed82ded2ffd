# Written from the verbs in fleet/lab/faults: edit those, then run `make docs`.
from collections.abc import Sequence
from typing import Generic, TypeVar

from fleet.lab.faults.fault import Fault
from fleet.lab.proxy.plan import Match

Injected = TypeVar("Injected")

class FaultMethods:
    """A method for each verb; it returns the fault."""

    def kill(
        self,
        target: str,
        *,
        container: str = "",
        process: str = "",
    ) -> Fault:
        """Kill a pod's processes, a node or a program, as by kill -9 or a loss of power.

        A pod is started again by its node. A node or a program is started again when the fault is cleared.
        """

    def freeze(
        self,
        target: str,
        *,
        container: str = "",
        process: str = "",
    ) -> Fault:
        """Let a pod's processes, a node or a program stand still: it holds what it has and answers nothing."""

    def stop(
        self,
        target: str,
        *,
        grace: float = 10,
    ) -> Fault:
        """Shut a node down in good order. It is started again when the fault is cleared."""

    def partition(
        self,
        side: Sequence[str],
        other: Sequence[str] = (),
        *,
        one_way: bool = False,
    ) -> Fault:
        """Let no packet through between nodes or pods and others, the API server for instance."""

    def disturb(
        self,
        side: Sequence[str],
        other: Sequence[str] = (),
        *,
        delay: float = 0,
        jitter: float = 0,
        loss: float = 0,
        reorder: float = 0,
        hold: float = 0.02,
        seed: int = 0,
        one_way: bool = False,
    ) -> Fault:
        """Delay, drop and reorder packets between nodes or pods and others. Times and shares are of each direction."""

    def fill(
        self,
        target: str,
        *,
        leave: int = 0,
    ) -> Fault:
        """Fill a volume: whoever writes to it is told that no space is left."""

    def corrupt(
        self,
        target: str,
        *,
        file: str = "",
        places: int = 16,
        seed: int = 0,
    ) -> Fault:
        """Change bytes of a file on a volume. Clearing puts those back that are still wrong."""

    def lose(
        self,
        target: str,
    ) -> Fault:
        """Lose all that is on a volume, or a node with all its disks, for good.

        A volume's pods are killed and find it empty. When a node's fault is cleared, a new one of its name starts; the
        volumes that were on the old one cannot be mounted any more.
        """

class FixtureMethods(Generic[Injected]):
    """A method for each verb; it takes `seconds` besides, and returns the fault as it was made in a lab."""

    def kill(
        self,
        target: str,
        *,
        container: str = "",
        process: str = "",
        seconds: float | None = None,
    ) -> Injected:
        """Kill a pod's processes, a node or a program, as by kill -9 or a loss of power.

        A pod is started again by its node. A node or a program is started again when the fault is cleared.
        """

    def freeze(
        self,
        target: str,
        *,
        container: str = "",
        process: str = "",
        seconds: float | None = None,
    ) -> Injected:
        """Let a pod's processes, a node or a program stand still: it holds what it has and answers nothing."""

    def stop(
        self,
        target: str,
        *,
        grace: float = 10,
        seconds: float | None = None,
    ) -> Injected:
        """Shut a node down in good order. It is started again when the fault is cleared."""

    def partition(
        self,
        side: Sequence[str],
        other: Sequence[str] = (),
        *,
        one_way: bool = False,
        seconds: float | None = None,
    ) -> Injected:
        """Let no packet through between nodes or pods and others, the API server for instance."""

    def disturb(
        self,
        side: Sequence[str],
        other: Sequence[str] = (),
        *,
        delay: float = 0,
        jitter: float = 0,
        loss: float = 0,
        reorder: float = 0,
        hold: float = 0.02,
        seed: int = 0,
        one_way: bool = False,
        seconds: float | None = None,
    ) -> Injected:
        """Delay, drop and reorder packets between nodes or pods and others. Times and shares are of each direction."""

    def fill(
        self,
        target: str,
        *,
        leave: int = 0,
        seconds: float | None = None,
    ) -> Injected:
        """Fill a volume: whoever writes to it is told that no space is left."""

    def corrupt(
        self,
        target: str,
        *,
        file: str = "",
        places: int = 16,
        seed: int = 0,
        seconds: float | None = None,
    ) -> Injected:
        """Change bytes of a file on a volume. Clearing puts those back that are still wrong."""

    def lose(
        self,
        target: str,
        *,
        seconds: float | None = None,
    ) -> Injected:
        """Lose all that is on a volume, or a node with all its disks, for good.

        A volume's pods are killed and find it empty. When a node's fault is cleared, a new one of its name starts; the
        volumes that were on the old one cannot be mounted any more.
        """

class ApiFixtureMethods(Generic[Injected]):
    """The same for faults of an API server."""

    def fail(
        self,
        status: int = 500,
        match: Match = ...,
        *,
        share: float | None = None,
        seed: int = 0,
        retry_after: int | None = None,
        message: str = "",
        seconds: float | None = None,
    ) -> Injected:
        """Answer requests with an error; they are not carried out."""

    def slow(
        self,
        by: float = 1,
        match: Match = ...,
        *,
        share: float | None = None,
        seed: int = 0,
        seconds: float | None = None,
    ) -> Injected:
        """Carry requests out later."""

    def forget(
        self,
        match: Match = ...,
        *,
        share: float | None = None,
        seed: int = 0,
        after_events: int = 0,
        seconds: float | None = None,
    ) -> Injected:
        """End watches with 410, as a server does that has forgotten the past: clients have to list anew."""

    def skew(
        self,
        by: float,
        match: Match = ...,
        *,
        seconds: float | None = None,
    ) -> Injected:
        """Show times in Leases shifted: who judges a holder by them takes it for dead, or for alive."""
