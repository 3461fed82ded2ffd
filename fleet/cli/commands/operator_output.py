"""What `fleet operator` says: for people, and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fleet.cli.output import table
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.install.apply import Done
    from fleet.install.install import Installed, Removed
    from fleet.install.status import Definition, OperatorState

_SIGNS = {"created": "+", "updated": "~", "deleted": "-"}


def installed_text(results: Mapping[str, Installed]) -> str:
    lines = []
    for cluster, made in results.items():
        counts = _counts(made.done)
        count = made.settings.replicas
        ready = f"; {count_noun(count, 'replica')} {'are' if count > 1 else 'is'} ready" if made.ready else ""
        lines.append(f"✓ {cluster}: the operator is installed: {counts}{ready}")
        lines += [f"    {_SIGNS[one.what]} {one.key}" for one in made.done if one.what != "unchanged"]
    return "\n".join(lines)


def _counts(done: Sequence[Done]) -> str:
    counted = Counter(one.what for one in done)
    if set(counted) == {"unchanged"}:
        return "no changes"
    return ", ".join(f"{counted[what]} {what}" for what in (*_SIGNS, "unchanged") if counted[what])  # type: ignore[index]


def installed_data(made: Installed) -> dict[str, Any]:
    return {
        "image": made.settings.image,
        "engineImages": dict(made.settings.engine_images),
        "allowed": asdict(made.settings.allowed),
        "replicas": made.settings.replicas,
        "objects": [{"object": str(one.key), "done": one.what} for one in made.done],
    }


def removed_text(results: Mapping[str, Removed]) -> str:
    lines = []
    for cluster, one in results.items():
        gone = f"the operator is gone: {_counts(one.done)}" if one.done else "there is no operator"
        lines.append(f"✓ {cluster}: {gone}")
        lines += [f"    - {each.key}" for each in one.done]
        lines += [f"    left: {words}" for words in one.left]
        if one.apps:
            count = len(one.apps)
            runs, it = ("apps run", "them") if count > 1 else ("app runs", "it")
            lines.append(
                f"    {count} {runs} on, and nobody looks after {it} now; definitions and custom resources stay"
            )
        lines += [f"    {key} was being deleted: what it is made of stays" for key in one.unfinished]
    return "\n".join(lines)


def removed_data(one: Removed) -> dict[str, Any]:
    return {
        "deleted": [str(each.key) for each in one.done],
        "left": one.left,
        "apps": [str(key) for key in one.apps],
        "unfinished": [str(key) for key in one.unfinished],
    }


def state_text(results: Mapping[str, OperatorState]) -> str:
    rows = [
        [
            cluster,
            one.version if one.installed else "not installed",
            f"{one.ready}/{one.replicas}" if one.installed else "–",
            one.leader or "–",
            ", ".join(f"{count} {health}" for health, count in one.apps.items()) or "–",
            ", ".join(_definition_words(each.fits) for each in one.definitions),
        ]
        for cluster, one in results.items()
    ]
    lines = [table(["cluster", "version", "ready", "leader", "apps", "definitions"], rows)] if rows else []
    for cluster, one in results.items():
        if one.installed and one.health != "Healthy":
            lines.append(f"  {cluster}: {one.message}")
        lines += [f"  {cluster}: {words}" for words in _allowed_words(one)]
        if one.without_rights:
            names = " ".join(one.without_rights)
            lines.append(f"  {cluster}: no rights in {names}; give them with: fleet operator allow {names}")
        lines += [f"  {cluster}: {_definition_advice(each)}" for each in one.definitions if not each.fits]
    return "\n".join(lines)


def _allowed_words(one: OperatorState) -> list[str]:
    """Only what somebody said; the defaults are on the page about the operator."""
    said = {"images": one.allowed.images, "stores": one.allowed.stores, "restores from": one.allowed.restores}
    return [f"apps may bring {what}: {', '.join(patterns)}" for what, patterns in said.items() if patterns]


def _definition_words(fits: bool | None) -> str:
    return {True: "current", False: "differ", None: "missing"}[fits]


def _definition_advice(found: Definition) -> str:
    if found.fits is None:
        return f"{found.name} is not defined; `fleet operator install` or the first sync does it"
    of = f"of fleet {found.version}" if found.version else "of another release"
    return f"{found.name} is {of}, made {found.made}; `fleet operator install` brings it up to this one"


def state_data(one: OperatorState) -> dict[str, Any]:
    return {
        "installed": one.installed,
        "version": one.version,
        "image": one.image,
        "engineImages": one.engine_images,
        "allowed": asdict(one.allowed),
        "ready": one.ready,
        "replicas": one.replicas,
        "health": one.health,
        "message": one.message,
        "leader": one.leader,
        "renewed": one.renewed,
        "apps": one.apps,
        "withoutRights": list(one.without_rights),
        "definitions": [
            {"name": each.name, "current": each.fits, "version": each.version, "made": each.made}
            for each in one.definitions
        ],
    }
