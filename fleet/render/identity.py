"""Options that name objects and fields, in Kubernetes' terms: former identities, fields that are left alone."""

from __future__ import annotations

import re

from pydantic.alias_generators import to_camel

from fleet.errors import ConfigurationError
from fleet.model.app import IDENTITY, App
from fleet.model.desired import Key
from fleet.model.manifest import Manifest
from fleet.suggestion import suggestion


def aliases(resource: App | Manifest) -> tuple[Key, ...]:
    """The keys under which the resource may have been made earlier."""
    now = resource.key
    keys: list[Key] = []
    for alias in resource.opts.aliases:
        if isinstance(alias, str):
            namespace, slash, name = alias.rpartition("/")
            keys.append(Key(now.group, now.kind, namespace if slash else now.namespace, name))
        else:
            keys.append(
                Key(
                    now.group if alias.group is None else alias.group,
                    alias.kind or now.kind,
                    alias.namespace or now.namespace,
                    alias.name or now.name,
                )
            )
    return tuple(key for key in dict.fromkeys(keys) if key != now)


def ignored(resource: App | Manifest) -> tuple[str, ...]:
    """Paths as the object has them. An app's own fields may be named as in Python: "restore_from", "config.quota"."""
    if not isinstance(resource, App):
        return tuple(dict.fromkeys(resource.opts.ignore_changes))
    return tuple(dict.fromkeys(_in_spec(resource, path) for path in resource.opts.ignore_changes))


def _in_spec(app: App, path: str) -> str:
    first, rest = re.fullmatch(r"([^.\[]+)(.*)", path, re.DOTALL).groups()  # type: ignore[union-attr]
    if first in ("spec", "metadata"):
        return path
    fields = [name for name in type(app).model_fields if name not in IDENTITY]
    if first not in fields:
        raise ConfigurationError(
            f"{app.kind()} has no field {first!r}",
            hint=suggestion(first, fields),
            source=app.source,
            field="opts.ignore_changes",
        )
    return "spec." + to_camel(first) + re.sub(r"\.(\w+)", lambda match: "." + to_camel(match[1]), rest)
