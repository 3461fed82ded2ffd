"""Results of `fleet operator` as text for people and as data: a function of each kind per subcommand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fleet.cli.output import format_table
from fleet.names import GROUP
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.install.apply import ObjectOutcome
    from fleet.install.install import InstallResult, RemoveResult
    from fleet.install.status import Definition, OperatorState

_SIGNS = {"created": "+", "updated": "~", "deleted": "-"}


def format_installed(results: Mapping[str, InstallResult]) -> str:
    """Return lines for people about each cluster."""
    lines = []
    for cluster, installed in results.items():
        counts = _count_changes(installed.done)
        count = installed.settings.replicas
        ready = f"; {count_noun(count, 'replica')} {'are' if count > 1 else 'is'} ready" if installed.ready else ""
        lines.append(f"✓ {cluster}: the operator is installed: {counts}{ready}")
        lines += [f"    {_SIGNS[change.what]} {change.key}" for change in installed.done if change.what != "unchanged"]
    return "\n".join(lines)


def _count_changes(changes: Sequence[ObjectOutcome]) -> str:
    """Return how many objects were created, updated and so on."""
    counts = Counter(change.what for change in changes)
    if set(counts) == {"unchanged"}:
        return "no changes"
    return ", ".join(f"{counts[verb]} {verb}" for verb in (*_SIGNS, "unchanged") if counts[verb])  # type: ignore[index]


def installed_data(installed: InstallResult) -> dict[str, Any]:
    return {
        "image": installed.settings.image,
        "engineImages": dict(installed.settings.engine_images),
        "allowed": asdict(installed.settings.allowed),
        "replicas": installed.settings.replicas,
        "objects": [{"object": str(change.key), "done": change.what} for change in installed.done],
    }


def format_removed(results: Mapping[str, RemoveResult]) -> str:
    """Return lines for people about each cluster."""
    lines = []
    for cluster, removed in results.items():
        outcome = f"the operator is gone: {_count_changes(removed.done)}" if removed.done else "there is no operator"
        lines.append(f"✓ {cluster}: {outcome}")
        lines += [f"    - {change.key}" for change in removed.done]
        lines += [f"    left: {reason}" for reason in removed.left]
        if removed.apps:
            count = len(removed.apps)
            apps_run, them = ("apps run", "them") if count > 1 else ("app runs", "it")
            lines.append(
                f"    {count} {apps_run} on, and nothing manages {them} now; definitions and custom resources stay"
            )
        lines += [f"    {key} was being deleted: what it is made of stays" for key in removed.unfinished]
    return "\n".join(lines)


def removed_data(removed: RemoveResult) -> dict[str, Any]:
    return {
        "deleted": [str(change.key) for change in removed.done],
        "left": removed.left,
        "apps": [str(key) for key in removed.apps],
        "unfinished": [str(key) for key in removed.unfinished],
    }


def format_states(results: Mapping[str, OperatorState]) -> str:
    """Return lines for people about each cluster."""
    rows = [
        [
            cluster,
            state.version if state.is_installed else "not installed",
            f"{state.ready}/{state.replicas}" if state.is_installed else "–",
            state.leader or "–",
            ", ".join(f"{count} {health}" for health, count in state.apps.items()) or "–",
            ", ".join(_describe_definition(definition.fits) for definition in state.definitions),
            ", ".join(f"{_short_name(kind)} {version}" for kind, version in sorted((state.types or {}).items())) or "–",
        ]
        for cluster, state in results.items()
    ]
    lines = (
        [format_table(["cluster", "version", "ready", "leader", "apps", "definitions", "knows"], rows)] if rows else []
    )
    for cluster, state in results.items():
        if state.is_installed and state.health != "Healthy":
            lines.append(f"  {cluster}: {state.message}")
        lines += [
            f"  {cluster}: the operator does not know {_short_name(kind)}:"
            " `fleet operator dockerfile --with PACKAGE` makes an image that does"
            for kind in state.unknown_types
        ]
        lines += [f"  {cluster}: {line}" for line in _describe_permissions(state)]
        if state.without_rights:
            names = " ".join(state.without_rights)
            lines.append(f"  {cluster}: no rights in {names}; give them with: fleet operator allow {names}")
        lines += [f"  {cluster}: {_advise_on_definition(item)}" for item in state.definitions if not item.fits]
    return "\n".join(lines)


def _describe_permissions(state: OperatorState) -> list[str]:
    """Return a line per permission that the user gave; the defaults are on the page about the operator."""
    allowed = {
        "images": state.allowed.images,
        "stores": state.allowed.stores,
        "restores from": state.allowed.restores,
        "Services of type": state.allowed.services,
    }
    return [f"apps may bring {what}: {', '.join(patterns)}" for what, patterns in allowed.items() if patterns]


def _short_name(kind: str) -> str:
    """Return a kind without fleet's own group, which goes without saying."""
    return kind.removesuffix(f".{GROUP}")


def _describe_definition(fits: bool | None) -> str:
    return {True: "current", False: "differ", None: "missing"}[fits]


def _advise_on_definition(definition: Definition) -> str:
    """Return what to do about a definition that is missing or of another release."""
    if definition.fits is None:
        return f"{definition.name} is not defined; `fleet operator install` or the first sync does it"
    release = f"of fleet {definition.version}" if definition.version else "of another release"
    return f"{definition.name} is {release}, made {definition.made}; `fleet operator install` brings it up to this one"


def state_data(state: OperatorState) -> dict[str, Any]:
    return {
        "installed": state.is_installed,
        "version": state.version,
        "image": state.image,
        "engineImages": state.engine_images,
        "allowed": asdict(state.allowed),
        "ready": state.ready,
        "replicas": state.replicas,
        "health": state.health,
        "message": state.message,
        "leader": state.leader,
        "renewed": state.renewed,
        "apps": state.apps,
        "types": state.types,
        "withoutRights": list(state.without_rights),
        "definitions": [
            {"name": item.name, "current": item.fits, "version": item.version, "made": item.made}
            for item in state.definitions
        ],
    }
