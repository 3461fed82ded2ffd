"""What git wants of an object as one text, to be recorded and compared: the hash of its manifest, and its options.

`protect` and `retain_on_delete` are part of it, for to take them away is what makes a later delete possible; so is
which fields are ignored, for to take one away is what changes it; and so are `adopt` and `take_from`, for what belongs
to others is taken by them. Those an inventory does not know: what is taken is taken. An object that may be in the
cluster under a former name has a state under each of its names.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from fleet.model.desired import Desired, Key, Object
from fleet.plan.inventory import Entry
from fleet.plan.normal import manifest_digest, manifest_hash, normalise
from fleet.plan.retention import is_retained

ABSENT = ""
_ADOPT = "+adopt"  # the last part of a state
SHORT = len(manifest_hash({}))  # letters of the hash in an inventory


def states(desired: Desired | None) -> dict[Key, str]:
    """Of everything that a stack wants in one cluster."""
    objects = desired.objects if desired else ()
    former = {alias: state(one, alias) for one in objects for alias in one.other_keys}
    return {**former, **{one.key: state(one, one.key) for one in objects}}


def state(one: Object, key: Key) -> str:
    """Under one of its names."""
    manifest = one.manifest
    if key != one.key:
        named = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        manifest = {**manifest, "metadata": {**manifest["metadata"], **named}}
    retain = one.retain_on_delete or is_retained(key, manifest)
    return manifest_digest(normalise(manifest)) + _flags(one.protect, retain, one.ignore_changes) + _adoption(one)


def state_of_entry(entry: Entry | None) -> str:
    """As the inventory knows it: with a short hash."""
    return entry.hash + _flags(entry.protect, entry.retain, entry.ignores) if entry else ABSENT


def short(text: str) -> str:
    """The form in which a state can be compared with that of an inventory."""
    digest, plus, flags = owned(text).partition("+")
    return digest[:SHORT] + plus + flags


def owned(text: str) -> str:
    """What a state says of an object that the stack has already: how it came to it does not matter any more."""
    return text.partition(_ADOPT)[0]


def _adoption(one: Object) -> str:
    if not one.adopt:
        return ""
    return f"{_ADOPT}-{_named(sorted(one.take_from))}" if one.take_from else _ADOPT


def _flags(protect: bool, retain: bool, ignores: tuple[str, ...]) -> str:
    ignored = f"+ignores-{_named(ignores)}" if ignores else ""
    return ("+protect" if protect else "") + ("+retain" if retain else "") + ignored


def _named(words: Sequence[str]) -> str:
    return sha256("\n".join(words).encode()).hexdigest()[:SHORT]
