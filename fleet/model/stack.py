"""A stack: a function that declares what a cluster should have, run once for every cluster that it is placed on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from fleet.errors import ConfigurationError, Source
from fleet.model.app import App
from fleet.model.cluster import Cluster
from fleet.model.context import OutputRequest, StackScope, current_discovery, current_scope, open_scope
from fleet.model.manifest import Manifest
from fleet.model.placement import AT_ONCE, Placement, Rollout, Selector, read_placement, select_clusters
from fleet.model.resource import Resource
from fleet.model.source import NOWHERE, displayed_path, locate
from fleet.model.types import check_name
from fleet.model.validation import copy_plain
from fleet.names import PROGRAMS
from fleet.suggestion import suggestion

A = TypeVar("A", bound=App)
Drift = Literal["repair", "report"]


@dataclass(frozen=True, slots=True)
class Collected:
    """What a stack declared for one cluster, in the order it was declared."""

    stack: str
    cluster: str
    namespace: str
    resources: tuple[Resource, ...]
    exports: Mapping[str, Any]
    asked: tuple[OutputRequest, ...] = ()  # exports of other stacks that it read
    files: tuple[str, ...] = ()  # that it read beside its own code
    delete_data: bool = False  # what holds data goes with what leaves the stack
    source: Source = NOWHERE

    @property
    def apps(self) -> tuple[App, ...]:
        return tuple(resource for resource in self.resources if isinstance(resource, App))

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return tuple(resource for resource in self.resources if isinstance(resource, Manifest))

    def app(self, name: str, kind: type[A] = App) -> A:  # type: ignore[assignment]
        """Return the app of that name and type, for a test to look at: `orders(eu).app("orders-db", Etcd).members`."""
        for app in self.apps:
            if app.name == name and isinstance(app, kind):
                return app
        hint = suggestion(name, (app.name for app in self.apps if isinstance(app, kind)))
        raise KeyError(f"stack {self.stack!r} declares no {kind.__name__} {name!r}" + (f"; {hint}" if hint else ""))


class Stack:
    """Made by `@fleet.stack`. Call it with a cluster in a test to see what it declares there."""

    def __init__(
        self,
        function: Callable[[Cluster], None],
        *,
        name: str,
        namespace: str,
        placement: tuple[Selector, ...],
        rollout: Rollout,
        depends_on: tuple[str, ...],
        source: Source,
        drift: Drift = "repair",
        delete_data: bool = False,
    ) -> None:
        self.function = function
        self.name = name
        self.namespace = namespace
        self.placement = placement
        self.rollout = rollout
        self.depends_on = depends_on  # names of stacks that must be healthy first
        self.drift = drift
        self.source = source
        self.delete_data = delete_data
        functools.update_wrapper(self, function)

    def __call__(self, cluster: Cluster, *, outputs: Mapping[str, Mapping[str, Any]] | None = None) -> Collected:
        """Return what the stack declares for a cluster. `outputs` stands in for other stacks' exports."""
        return collect(self, cluster, outputs=outputs)

    def __repr__(self) -> str:
        return f"<stack {self.name} at {self.source}>"

    def clusters(self, known: Sequence[Cluster]) -> tuple[Cluster, ...]:
        """Return the clusters that it is placed on, by name; the rollout's waves are checked against them."""
        selected = select_clusters(self.placement, known, field="clusters", source=self.source)
        self.rollout.order(selected, source=self.source)
        return selected


def stack(
    function: None = None,
    /,
    *,
    clusters: Placement,
    name: str | None = None,
    namespace: str | None = None,
    rollout: Rollout | None = None,
    depends_on: Sequence[str | Stack] = (),
    drift: Drift = "repair",
    delete_data: bool = False,
) -> Callable[[Callable[[Cluster], None]], Stack]:
    """Make a function a stack: `clusters` says where it goes, by name or with `fleet.where`.

    The stack has the function's name (with dashes) and so has its namespace, unless they are given. With
    `depends_on` it is applied after other stacks, as it is after those that it reads with `fleet.output`. What others
    change in its objects is put right by `fleet serve`, or with `drift="report"` only reported.

    What holds data stays in a cluster when it leaves git: volumes, those of apps too, and the namespace. With
    `delete_data=True`, once that is synced, it goes with what leaves.
    """
    source = locate()
    placement = read_placement(clusters, field="clusters", source=source)
    if rollout is not None and not isinstance(rollout, Rollout):
        raise ConfigurationError("must be a fleet.Rollout", source=source, field="rollout")
    if drift not in get_args(Drift):
        raise ConfigurationError('must be "repair" or "report"', source=source, field="drift")
    if not isinstance(delete_data, bool):
        raise ConfigurationError("must be True or False", source=source, field="delete_data")

    def decorate(function: Callable[[Cluster], None]) -> Stack:
        _check_function(function, source)
        code = function.__code__
        default_name = name if name is not None else function.__name__.strip("_").replace("_", "-").lower()
        result = Stack(
            function,
            name=_check_stack_name(default_name, source),
            namespace=_check_name(namespace if namespace is not None else default_name, "namespace", source),
            placement=placement,
            rollout=rollout or AT_ONCE,
            depends_on=tuple(_stack_name(other, source) for other in depends_on),
            source=Source(displayed_path(code.co_filename), code.co_firstlineno),
            drift=drift,
            delete_data=delete_data,
        )
        discovery = current_discovery()
        if discovery is not None:
            discovery.stacks.append(result)
        return result

    return decorate


def collect(stack: Stack, cluster: Cluster, outputs: Mapping[str, Mapping[str, Any]] | None = None) -> Collected:
    """Run a stack's function once for a cluster and return what it declared.

    Raises what the function raises; a `MissingOutputError` names an export that has to be evaluated first.
    """
    outer = current_scope()
    if outer is not None:
        raise ConfigurationError(
            f"stack {outer.stack!r} calls stack {stack.name!r}",
            hint="share a plain function that constructs the apps, or read the other's exports with fleet.output",
            source=locate(),
        )
    scope = StackScope(stack=stack.name, namespace=stack.namespace, cluster=cluster.name, outputs=outputs or {})
    with open_scope(scope):
        returned: Any = stack.function(cluster)
    if returned is not None:
        raise ConfigurationError(
            f"stack {stack.name!r} returns {type(returned).__name__}, but what it returns is not deployed",
            hint="construct apps inside the function; give values to others with fleet.export(name, value)",
            source=stack.source,
        )
    return Collected(
        stack=stack.name,
        cluster=cluster.name,
        namespace=stack.namespace,
        resources=tuple(scope.resources.values()),
        exports=copy_plain(scope.exports),
        asked=tuple(scope.asked),
        files=tuple(scope.files),
        delete_data=stack.delete_data,
        source=stack.source,
    )


def _check_function(function: object, source: Source) -> None:
    """Raise ConfigurationError unless the function can be run as a stack is: called with a cluster, done when it
    returns.
    """
    hint = "write `def orders(cluster: fleet.Cluster) -> None:`"
    if not inspect.isfunction(function):
        raise ConfigurationError("@fleet.stack decorates a function", hint=hint, source=source)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigurationError("a stack is a plain function: no async, no yield", hint=hint, source=source)
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise ConfigurationError("a stack takes one parameter, the cluster", hint=hint, source=source) from None


def _stack_name(other: object, source: Source) -> str:
    if isinstance(other, str):
        return other
    if isinstance(other, Stack):
        return other.name
    raise ConfigurationError(
        f"must be stacks or names of stacks, not {type(other).__name__}", source=source, field="depends_on"
    )


def _check_stack_name(text: object, source: Source) -> str:
    """Return a checked name. A stack's Lease is beside those of fleet's own programs, under its name, so it may not
    have one of theirs.
    """
    name = _check_name(text, "name", source)
    if name in PROGRAMS:
        hint = f"name it otherwise: @fleet.stack(name='my-{name}')"
        raise ConfigurationError(
            f"{name!r} is the name of a program of fleet's", hint=hint, source=source, field="name"
        )
    return name


def _check_name(text: object, field: str, source: Source) -> str:
    try:
        if isinstance(text, str):
            return check_name(text)
    except (PydanticCustomError, ValidationError) as error:
        context = getattr(error, "context", None) or {}
        message, hint = str(context.get("message", error)), context.get("hint")
        raise ConfigurationError(message, hint=hint, source=source, field=field) from None
    raise ConfigurationError(f"must be a string, not {type(text).__name__}", source=source, field=field)
