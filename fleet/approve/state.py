"""What git wants of an object as one text, to be recorded and compared: the hash of its manifest, and its options.

`protect` and `retain_on_delete` are part of it, for to take them away is what makes a later delete possible, and so is
which fields are ignored: to take one away is what changes it. An object
that may be in the cluster under a former name has a state under each of its names.
"""

from __future__ import annotations

from hashlib import sha256

from fleet.model.desired import Desired, Key, Object
from fleet.plan.inventory import Entry
from fleet.plan.normal import manifest_digest, manifest_hash, normalise
from fleet.plan.retention import is_retained

ABSENT = ""
SHORT = len(manifest_hash({}))  # letters of the hash in an inventory


def states(desired: Desired | None) -> dict[Key, str]:
    """Of everything that a stack wants in one cluster."""
    objects = desired.objects if desired else ()
    former = {alias: state(one, alias) for one in objects for alias in one.aliases}
    return {**former, **{one.key: state(one, one.key) for one in objects}}


def state(one: Object, key: Key) -> str:
    """Under one of its names."""
    manifest = one.manifest
    if key != one.key:
        named = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        manifest = {**manifest, "metadata": {**manifest["metadata"], **named}}
    retain = one.retain_on_delete or is_retained(key, manifest)
    return manifest_digest(normalise(manifest)) + _flags(one.protect, retain, one.ignore_changes)


def state_of_entry(entry: Entry | None) -> str:
    """As the inventory knows it: with a short hash."""
    return entry.hash + _flags(entry.protect, entry.retain, entry.ignores) if entry else ABSENT


def short(text: str) -> str:
    """The form in which a state can be compared with that of an inventory."""
    digest, plus, flags = text.partition("+")
    return digest[:SHORT] + plus + flags


def _flags(protect: bool, retain: bool, ignores: tuple[str, ...]) -> str:
    ignored = f"+ignores-{sha256(repr(ignores).encode()).hexdigest()[:20]}" if ignores else ""
    return ("+protect" if protect else "") + ("+retain" if retain else "") + ignored
