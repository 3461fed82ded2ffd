"""What a fault can happen to, in the words of the command line. Pure.

pod/web-0             a pod of the namespace that was said, or pod/shop/web-0
volume/data-web-0     the volume of a claim, as pods
node/lab-node-1       a node
kube-apiserver        a program of the control plane
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.errors import ConfigurationError

Thing = Literal["pod", "volume", "node", "program"]
PROGRAMS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "coredns", "provisioner")
HINT = f"write pod/NAME, pod/NAMESPACE/NAME, volume/CLAIM, node/NAME, or one of {', '.join(PROGRAMS)}"


@dataclass(frozen=True, slots=True)
class Target:
    thing: Thing
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        if self.thing == "program":
            return self.name
        return "/".join(part for part in (self.thing, self.namespace, self.name) if part)


def parse(text: str, namespace: str = "default") -> Target:
    """What a text means; said in full it means the same everywhere."""
    if text in PROGRAMS:
        return Target("program", text)
    thing, *rest = text.split("/")
    match (thing, rest):
        case ("node", [name]) if name:
            return Target("node", name)
        case ("pod" | "volume", [name]) if name:
            return Target(thing, name, namespace)
        case ("pod" | "volume", [named, name]) if named and name:
            return Target(thing, name, named)
    raise ConfigurationError(f"{text!r} is nothing that a fault can happen to", hint=HINT)


def expect(text: str, namespace: str, verb: str, *things: Thing) -> Target:
    """A target of a kind that the verb makes sense for."""
    target = parse(text, namespace)
    if target.thing not in things:
        known = " or a ".join(things)
        raise ConfigurationError(f"{text} is a {target.thing}; {verb} is for a {known}", hint=HINT)
    return target
