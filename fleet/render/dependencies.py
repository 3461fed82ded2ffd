"""What comes before what.

How the resources of a stack belong together: parents, what children inherit, who is under whom.

What must be there before an object: what its options name, its namespace, the definition of its kind, and for an app
the operator's rights: it must be able to clean up behind an app that goes, so they go after it.
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
    """Every resource that becomes an object."""
    for resource in collected.resources:
        if isinstance(resource, App | Manifest):
            yield resource


def parent_of(resource: Resource) -> App | Manifest | None:
    parent = resource.opts.parent if isinstance(resource, App | Manifest) else None
    return parent if isinstance(parent, App | Manifest) else None


def ancestors(resource: Resource) -> Iterator[App | Manifest]:
    """Its parent, the parent's parent, and so on. Objects cannot change once made, so this ends."""
    parent = parent_of(resource)
    while parent is not None:
        yield parent
        parent = parent_of(parent)


def inherited_options(resource: App | Manifest) -> tuple[bool, bool]:
    """Whether it is protected and whether it is retained: its own word, else that of the nearest ancestor."""
    line = [resource.opts, *(ancestor.opts for ancestor in ancestors(resource))]
    protect = next((opts.protect for opts in line if opts.protect is not None), False)
    retain = next((opts.retain_on_delete for opts in line if opts.retain_on_delete is not None), False)
    return protect, retain


class Dependencies:
    """Answers for one stack in one cluster."""

    def __init__(self, collected: Collected, made: Mapping[Key, Object]) -> None:
        self._stack = collected.stack
        self._made = made
        self._resources = {resource.key: resource for resource in objects_of(collected)}
        self._definitions = {
            _defined_kind(one): key for key, one in made.items() if key.kind == "CustomResourceDefinition"
        }
        self._under: dict[Key, list[Key]] = {}
        for key, resource in self._resources.items():
            for ancestor in ancestors(resource):
                self._under.setdefault(ancestor.key, []).append(key)

    def of(self, key: Key) -> tuple[Key, ...]:
        """Keys of this stack that `key` comes after, each once, in order."""
        resource = self._resources.get(key)
        named = set(self._named(resource)) if resource is not None else set()
        implied = {Key("", "Namespace", "", key.namespace), self._definitions.get((key.group, key.kind), key)}
        if self._made[key].app:
            implied.add(binding_key(key.namespace, self._stack))
        return tuple(sorted((named | (implied & self._made.keys())) - {key}))

    def _named(self, resource: App | Manifest) -> Iterator[Key]:
        above = {ancestor.key for ancestor in ancestors(resource)}
        for index, other in enumerate(resource.opts.depends_on):
            needed = self._find(resource, other, f"opts.depends_on[{index}]")
            yield needed
            if needed not in above:  # who needs a parent needs its children, unless it is one of them
                yield from self._under.get(needed, ())
        for ancestor in ancestors(resource):
            if ancestor.key not in self._made:
                raise self._stranger(resource, ancestor, "opts.parent")

    def _find(self, resource: App | Manifest, other: Resource | str, field: str) -> Key:
        if isinstance(other, Resource):
            if other.key not in self._made:
                raise self._stranger(resource, other, field)
            return other.key
        kind, _, name = other.rpartition("/")
        found = [key for key in self._resources if self._name(key) == name and kind in ("", key.kind)]
        found = [key for key in found if isinstance(self._resources[key], App)] if not kind else found
        if len(found) == 1:
            return found[0]
        known = [one.name for one in self._resources.values() if isinstance(one, App)]
        known += [f"{key.kind}/{key.name}" for key, one in self._resources.items() if isinstance(one, Manifest)]
        message = f"stack {self._stack!r} declares no {other!r}"
        hint = suggestion(other, known)
        if found:
            message = f"{other!r} names several: {', '.join(map(str, found))}"
            hint = "pass the object itself"
        raise ConfigurationError(message, hint=hint, source=resource.source, field=field)

    def _name(self, key: Key) -> str:
        """Of an app its name in git, as the stack knows it."""
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
    """The group and kind that a CustomResourceDefinition defines."""
    spec = definition.manifest.get("spec") or {}
    return str(spec.get("group", "")), str((spec.get("names") or {}).get("kind", ""))
