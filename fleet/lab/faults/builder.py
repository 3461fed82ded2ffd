"""The way from a verb and its arguments to a fault, for the command line, tests and schedules. Pure.

Wrong arguments are refused here; whether there is such a pod or node is found out by the kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.errors import ConfigurationError
from fleet.lab.faults.fault import Fault, Target, Thing, expect_target

SIDE_THINGS: tuple[Thing, ...] = ("node", "pod", "program")
API_SERVER = "kube-apiserver"


@dataclass(frozen=True, slots=True)
class FaultBuilder:
    """A builder of faults of one cluster; pods and volumes without a namespace are in `namespace`."""

    cluster: str
    namespace: str = "default"

    def kill(self, target: str, *, container: str = "", process: str = "") -> Fault:
        """Kill -9: all processes of a pod (or of one container, or those of one name), a node, a program."""
        thing = expect_target(target, self.namespace, "kill", "pod", "node", "program")
        options = {"container": container, "process": process}
        return self._single_target(f"kill-{thing.thing}", thing, self._pod_options(thing, options))

    def freeze(self, target: str, *, container: str = "", process: str = "") -> Fault:
        """Let processes stand still, as they are: they hold what they have and answer nothing."""
        thing = expect_target(target, self.namespace, "freeze", "pod", "node", "program")
        options = {"container": container, "process": process}
        return self._single_target(f"freeze-{thing.thing}", thing, self._pod_options(thing, options))

    def stop(self, target: str, *, grace: float = 10) -> Fault:
        """Shut a node down in good order: its pods are asked to end and get `grace` seconds for that."""
        node = expect_target(target, self.namespace, "stop", "node")
        return self._single_target("stop-node", node, {"grace": _check_at_least(0, grace, "--grace")})

    def partition(self, side: Sequence[str], other: Sequence[str] = (), *, one_way: bool = False) -> Fault:
        """Let no packet through between two sides, or between one side and all other addresses."""
        return self._two_sides("partition", side, other, {"one-way": one_way})

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
        """Delay packets (seconds, give or take `jitter`), lose a share of them, hold a share back until later."""
        options = {
            "delay": _check_at_least(0, delay, "--delay"),
            "jitter": _check_at_least(0, jitter, "--jitter"),
            "loss": _check_share(loss, "--loss"),
            "reorder": _check_share(reorder, "--reorder"),
            "hold": _check_at_least(0, hold, "--hold") if reorder else 0,
        }
        if jitter > delay:
            raise ConfigurationError(
                f"a delay of {delay:g} s cannot vary by {jitter:g} s", field="--jitter", hint="at most the delay"
            )
        if not any(options.values()):
            raise ConfigurationError(
                "this disturbs nothing", hint="say a delay, or the share of packets to lose or to reorder"
            )
        return self._two_sides("disturb", side, other, {**options, "seed": seed, "one-way": one_way})

    def fill(self, target: str, *, leave: int = 0) -> Fault:
        """Take all that is free on a volume, but for `leave` bytes."""
        volume = expect_target(target, self.namespace, "fill", "volume")
        return self._single_target("fill-volume", volume, {"leave": int(_check_at_least(0, leave, "--leave"))})

    def corrupt(self, target: str, *, file: str = "", places: int = 16, seed: int = 0) -> Fault:
        """Change bytes of a file on a volume (or of the largest) at some places."""
        volume = expect_target(target, self.namespace, "corrupt", "volume")
        if not 1 <= places <= 10_000:
            raise ConfigurationError(f"{places} places are not possible", field="--places", hint="1 to 10000")
        if file.startswith("/") or ".." in file.split("/"):
            raise ConfigurationError(
                f"{file!r} is not a path on the volume", field="--file", hint="relative to the volume's own root"
            )
        return self._single_target("corrupt-volume", volume, {"file": file, "places": places, "seed": seed})

    def lose(self, target: str) -> Fault:
        """Lose what is on a volume for good, or a node together with the disks of all its volumes."""
        thing = expect_target(target, self.namespace, "lose", "volume", "node")
        return self._single_target(f"lose-{thing.thing}", thing, {})

    def _single_target(self, kind: str, target: Target, options: Mapping[str, Any]) -> Fault:
        return Fault(kind, self.cluster, (str(target),), options)

    def _two_sides(self, kind: str, side: Sequence[str], other: Sequence[str], options: Mapping[str, Any]) -> Fault:
        near = [str(self._parse_side(text, kind)) for text in side]
        far = [str(self._parse_side(text, kind)) for text in other]
        if not near:
            raise ConfigurationError(f"{kind} needs a node or a pod", hint="node/NAME or pod/NAME")
        if API_SERVER in near:
            near, far = far, near
        if not near or API_SERVER in near:
            raise ConfigurationError(
                "the API server is one side; the other has to be nodes or pods",
                hint=f"`{kind} node/NAME --from {API_SERVER}`; to stop it for all: `freeze {API_SERVER}`",
            )
        both = set(near) & set(far)
        if both:
            raise ConfigurationError(f"{min(both)} is on both sides")
        return Fault(kind, self.cluster, tuple(near), {"from": far, **options})

    def _parse_side(self, text: str, kind: str) -> Target:
        target = expect_target(text, self.namespace, kind, *SIDE_THINGS)
        if target.thing == "program" and target.name != API_SERVER:
            raise ConfigurationError(
                f"{text} has no packets of its own to tell apart", hint=f"nodes, pods and {API_SERVER} have"
            )
        return target

    @staticmethod
    def _pod_options(target: Target, options: dict[str, str]) -> dict[str, str]:
        flags = [f"--{name}" for name, value in options.items() if value]
        if flags and target.thing != "pod":
            raise ConfigurationError(f"{flags[0]} is for pods, and {target} is none", field=flags[0])
        return options if target.thing == "pod" else {}


def _check_at_least(least: float, value: float, field: str) -> float:
    if value < least:
        raise ConfigurationError(f"{value:g} is too small", field=field, hint=f"at least {least:g}")
    return value


def _check_share(value: float, field: str) -> float:
    if not 0 <= value <= 1:
        raise ConfigurationError(f"{value:g} is not a share", field=field, hint="from 0 (none) to 1 (all)")
    return value
