"""Dependencies of a stack's objects: what must exist before each.

That is what an object's options name, its namespace, the definition of its kind, and for an app the operator's rights:
it must be able to clean up behind an app that goes, so they go after it. Resources also belong together: parents, what
children inherit, and which resources are below which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.errors import ConfigurationError
from fleet.model.app import App
from fleet.model.manifest import Manifest
from fleet.model.resource import Resource
from fleet.model.stack import Collected
from fleet.objects.desired import Key, Object
from fleet.render.operator_rights import binding_key
from fleet.suggestion import suggestion


def objects_of(collected: Collected) -> Iterator[App | Manifest]:
    """Yield every resource that becomes an object."""
    for resource in collected.resources:
        if isinstance(resource, App | Manifest):
            yield resource


def parent_of(resource: Resource) -> App | Manifest | None:
    parent = resource.opts.parent if isinstance(resource, App | Manifest) else None
    return parent if isinstance(parent, App | Manifest) else None


def ancestors(resource: Resource) -> Iterator[App | Manifest]:
    """Yield the resource's parent, the parent's parent, and so on. Objects cannot change once made, so this ends."""
    parent = parent_of(resource)
    while parent is not None:
        yield parent
        parent = parent_of(parent)


def inherited_options(resource: App | Manifest) -> tuple[bool, bool]:
    """Return whether a resource is protected and whether it is retained: its own option, else that of the nearest
    ancestor.
    """
    line = [resource.opts, *(ancestor.opts for ancestor in ancestors(resource))]
    protect = next((opts.protect for opts in line if opts.protect is not None), False)
    retain = next((opts.retain_on_delete for opts in line if opts.retain_on_delete is not None), False)
    return protect, retain


class Dependencies:
    """The dependencies of all objects of one stack in one cluster."""

    def __init__(self, collected: Collected, objects: Mapping[Key, Object]) -> None:
        self._stack = collected.stack
        self._objects = objects
        self._resources = {resource.key: resource for resource in objects_of(collected)}
        self._definitions = {
            _defined_kind(obj): key for key, obj in objects.items() if key.kind == "CustomResourceDefinition"
        }
        self._under: dict[Key, list[Key]] = {}
        for key, resource in self._resources.items():
            for ancestor in ancestors(resource):
                self._under.setdefault(ancestor.key, []).append(key)

    def of(self, key: Key) -> tuple[Key, ...]:
        """Return keys of this stack that `key` comes after, each once, in order."""
        resource = self._resources.get(key)
        named = set(self._find_dependencies(resource)) if resource is not None else set()
        implied = {Key("", "Namespace", "", key.namespace), self._definitions.get((key.group, key.kind), key)}
        if self._objects[key].app:
            implied.add(binding_key(key.namespace, self._stack))
        return tuple(sorted((named | (implied & self._objects.keys())) - {key}))

    def _find_dependencies(self, resource: App | Manifest) -> Iterator[Key]:
        above = {ancestor.key for ancestor in ancestors(resource)}
        for index, other in enumerate(resource.opts.depends_on):
            needed = self._find(resource, other, f"opts.depends_on[{index}]")
            yield needed
            if needed not in above:  # who needs a parent needs its children, unless it is one of them
                yield from self._under.get(needed, ())
        for ancestor in ancestors(resource):
            if ancestor.key not in self._objects:
                raise self._stranger(resource, ancestor, "opts.parent")

    def _find(self, resource: App | Manifest, other: Resource | str, field: str) -> Key:
        if isinstance(other, Resource):
            if other.key not in self._objects:
                raise self._stranger(resource, other, field)
            return other.key
        kind, _, name = other.rpartition("/")
        matches = [key for key in self._resources if self._name(key) == name and kind in ("", key.kind)]
        matches = [key for key in matches if isinstance(self._resources[key], App)] if not kind else matches
        if len(matches) == 1:
            return matches[0]
        candidates = [candidate.name for candidate in self._resources.values() if isinstance(candidate, App)]
        candidates += [
            f"{key.kind}/{key.name}" for key, candidate in self._resources.items() if isinstance(candidate, Manifest)
        ]
        message = f"stack {self._stack!r} declares no {other!r}"
        hint = suggestion(other, candidates)
        if matches:
            message = f"{other!r} names several: {', '.join(map(str, matches))}"
            hint = "pass the object itself"
        raise ConfigurationError(message, hint=hint, source=resource.source, field=field)

    def _name(self, key: Key) -> str:
        """Return the name of a resource as the stack knows it: of an app, its name in git."""
        resource = self._resources[key]
        return resource.name if isinstance(resource, App) else key.name

    def _stranger(self, resource: Resource, other: Resource, field: str) -> ConfigurationError:
        return ConfigurationError(
            f"{other.key} is not declared by stack {self._stack!r}",
            hint="name resources of the same stack; for another stack use fleet.output, or depends_on of @fleet.stack",
            source=resource.source,
            field=field,
        )


def _defined_kind(definition: Object) -> tuple[str, str]:
    """Return the group and kind that a CustomResourceDefinition defines."""
    spec = definition.manifest.get("spec") or {}
    return str(spec.get("group", "")), str((spec.get("names") or {}).get("kind", ""))
