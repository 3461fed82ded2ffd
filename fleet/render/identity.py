"""Options that name objects and fields, in Kubernetes' terms: former identities, fields that are left alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from fleet.errors import ConfigurationError
from fleet.model.app import IDENTITY, App
from fleet.model.desired import Key, Object
from fleet.model.manifest import Manifest
from fleet.model.types.name import check_app_name, check_name
from fleet.suggestion import suggestion


def aliases(resource: App | Manifest) -> tuple[Key, ...]:
    """Return the other keys under which the resource may be in a cluster; of a renamed app that is its new one, too."""
    if isinstance(resource, Manifest):
        return resource.opts.former_keys(resource.key)
    now = resource.key_in_git
    return tuple(key for key in (now, *resource.opts.former_keys(now)) if key != resource.key)


def check_names(resources: Iterable[App | Manifest], made: Mapping[Key, Object]) -> None:
    """Raise ConfigurationError where two apps are called the same: what is made for them would be, too."""
    in_git: dict[Key, App] = {}
    for app in (one for one in resources if isinstance(one, App)):
        first = in_git.setdefault(app.key_in_git, app)
        if first is not app:
            raise ConfigurationError(
                f"{app.key_in_git} is declared twice",
                hint=f"the first is at {first.source}; give this one another name",
                source=app.source,
                field="name",
            )
        if app.key != app.key_in_git:
            _check_former(app)
    in_cluster: dict[tuple[str, str], Object] = {}
    for one in made.values():
        other = in_cluster.setdefault((one.key.namespace, one.key.name), one) if one.app else one
        if other is not one:
            raise ConfigurationError(
                f"{one.key} has the name of {other.key}, and so would their Services and Secrets",
                hint=f"the other is at {other.source}; give one of them another name",
                source=one.source,
                field="name",
            )


def _check_former(app: App) -> None:
    """The former name becomes those of Services and Secrets, as any name of an app does."""
    try:
        check_app_name(app.key.name)
        check_name(app.key.namespace)
    except (PydanticCustomError, ValidationError) as error:
        context = getattr(error, "context", None) or {}
        message, hint = str(context.get("message", error)), context.get("hint")
        raise ConfigurationError(message, hint=hint, source=app.source, field="opts.aliases") from None


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
