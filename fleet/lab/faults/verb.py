"""Verbs: what users can have done to a lab, and how its arguments are said everywhere. Pure.

A `FaultVerb` is a function from arguments to a `Fault`, the kinds that it may result in, and what chance may draw of
it. The function is the only declaration of the arguments: its first parameter is a `TargetScope`, the others have
names, types and defaults, and `Annotated` says of each one what the command line shows:

    def fill(
        scope: TargetScope,
        target: TargetName,
        *,
        leave: Annotated[int, Option("Leave so much free.", metavar="BYTES")] = 0,
    ) -> Fault:
        \"\"\"Fill a volume: whoever writes to it is told that no space is left.\"\"\"
        volume = expect_target(target, scope.namespace, "fill", "volume")
        return Fault("fill-volume", scope.cluster, (str(volume),), {"leave": check_at_least(0, leave, "--leave")})

    FILL = FaultVerb(fill, kinds={"fill-volume": FillVolume})

The function refuses wrong arguments; whether there is such a pod or node is found out by the kind. The docstring is the
help of the command. A parameter that is not annotated is for Python only, except a `Match`, which stands for options
that all faults of an API server have.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

from fleet.errors import ConfigurationError
from fleet.lab.faults.fault import Fault, Kind, Target, Thing
from fleet.lab.faults.methods import FaultMethods

API_SERVER = "kube-apiserver"
RESERVED = frozenset({"name", "cluster", "namespace", "seconds"})  # of every fault: where it is, and for how long


@dataclass(frozen=True, slots=True)
class TargetScope:
    """A cluster in which targets are looked for; pods and volumes without a namespace are in `namespace`."""

    cluster: str
    namespace: str = "default"


@dataclass(frozen=True, slots=True)
class TargetArgument:
    """A parameter that is one target, or several, and has no flag at the command line."""


TargetName = Annotated[str, TargetArgument()]


@dataclass(frozen=True, slots=True)
class Option:
    """A parameter that is an option at the command line, called as the parameter unless `flags` says otherwise."""

    help: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    is_duration: bool = False  # a float of seconds, said as 30s or 5m
    is_target: bool = False  # completed by the shell as targets are
    show_default: bool = False
    is_last: bool = False  # in the help, behind all others


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a verb: its name, type and default, and what the command line shows of it."""

    name: str
    type: Any
    default: Any  # inspect.Parameter.empty if it has to be given
    is_positional: bool
    shown: TargetArgument | Option | None

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Draw:
    """What a schedule may choose for targets of some things, and how chance finds the arguments."""

    things: tuple[Thing, ...]
    make: Callable[[TargetScope, str, Random], Fault]
    name: str = ""  # by which users choose it; that of the verb if empty
    is_default: bool = True  # chosen also if the user names nothing: all is as before afterwards
    program: str = ""  # the only program that it can happen to

    def fits(self, target: Target) -> bool:
        return target.thing in self.things and self.program in ("", target.name)


@dataclass(frozen=True, slots=True)
class FaultVerb:
    """A function from arguments to a fault, with the kinds of the faults that it returns."""

    make: Callable[..., Fault]
    kinds: Mapping[str, type[Kind]]  # by the name that is stored, which begins with the verb
    draws: tuple[Draw, ...] = ()

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def help(self) -> str:
        return inspect.getdoc(self.make) or ""

    @property
    def summary(self) -> str:
        """Return the help without examples of the command line."""
        return self.help.partition("\n\n\b\n")[0]

    def parameters(self) -> list[Parameter]:
        """Return the parameters behind the scope, in the order of the signature."""
        hints = typing.get_type_hints(self.make, include_extras=True)
        _, *parameters = inspect.signature(self.make).parameters.values()
        return [_describe(parameter, hints[parameter.name]) for parameter in parameters]


@dataclass(frozen=True, slots=True)
class FaultBuilder(TargetScope, FaultMethods):
    """A builder of faults of one cluster; pods and volumes without a namespace are in `namespace`."""

    def _use_verb(self, verb: FaultVerb, *arguments: Any, **options: Any) -> Fault:
        return verb.make(self, *arguments, **options)


def _describe(parameter: inspect.Parameter, hint: Any) -> Parameter:
    shown = None
    if typing.get_origin(hint) is Annotated:
        hint, *notes = typing.get_args(hint)
        shown = next((note for note in notes if isinstance(note, TargetArgument | Option)), None)
    is_positional = parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    return Parameter(parameter.name, hint, parameter.default, is_positional, shown)


def draw_seed(chance: Random) -> int:
    """Return a seed for what a fault draws itself."""
    return chance.randrange(1 << 32)


def list_draw_names(verbs: Iterable[FaultVerb]) -> list[str]:
    """Return the names by which users choose what is drawn."""
    return list(dict.fromkeys(draw.name or verb.name for verb in verbs for draw in verb.draws))


def check_at_least(least: float, value: float, field: str) -> float:
    """Return the value; raise ConfigurationError if it is smaller."""
    if value < least:
        raise ConfigurationError(f"{value:g} is too small", field=field, hint=f"at least {least:g}")
    return value


def check_share(value: float, field: str) -> float:
    """Return the value; raise ConfigurationError if it is no share."""
    if not 0 <= value <= 1:
        raise ConfigurationError(f"{value:g} is not a share", field=field, hint="from 0 (none) to 1 (all)")
    return value
