"""An inventory as text: a line per object, columns in a header, so that `kubectl get -o yaml` shows it to people.

Pure. Tabs instead of JSON, because the text stands inside JSON already and quotes would double its size; columns
that a later version adds come with the header, and those it does not know it leaves out.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, unquote

from fleet.errors import ResourceError
from fleet.model.desired import Key
from fleet.plan.inventory import Entry

COLUMNS = ("group", "version", "kind", "namespace", "name", "uid", "hash", "flags", "after")
ADDED = ("ignores", "seen")  # by later versions: inventories from before do not have them
SAFE = ":._-~@"  # what else a name may hold is quoted; almost none needs it
SAFE_IN_PATHS = f"{SAFE}[]=*/"
_is_safe = re.compile(rf"[A-Za-z0-9{SAFE}]*").fullmatch  # much quicker than to quote, and thousands are asked about


def line(entry: Entry) -> str:
    key = entry.key
    flags = f"{'retain' if entry.retain else ''},{'protect' if entry.protect else ''}".strip(",")
    after = ",".join([_reference(other) for other in entry.after]) if entry.after else ""
    ignores = ",".join([quote(path, safe=SAFE_IN_PATHS) for path in entry.ignores]) if entry.ignores else ""
    identity = (key.group, entry.version, key.kind, key.namespace, _name(key))
    return "\t".join((*identity, entry.uid, entry.hash, flags, after, ignores, entry.seen))


def write(lines: Iterable[str]) -> str:
    return "\n".join(("\t".join((*COLUMNS, *ADDED)), *lines)) + "\n"


def read(text: str) -> list[Entry]:
    """The entries; ResourceError when the text is not whole, because an inventory read in part loses objects."""
    header, *lines = text.splitlines() or [""]
    columns = header.split("\t")
    if missing := set(COLUMNS) - set(columns):
        raise ResourceError(f"an inventory without the columns {', '.join(sorted(missing))} cannot be read")
    places = {name: position for position, name in enumerate(columns)}
    wanted = operator.itemgetter(*(places.get(name, len(columns)) for name in (*COLUMNS, *ADDED)))
    entries, keys = [], dict[str, tuple[Key, ...]]()
    for one in lines:
        cells = one.split("\t")
        if len(cells) != len(columns):
            raise ResourceError(f"a line of the inventory is damaged: {one!r}")
        entries.append(_entry(wanted([*cells, ""]), keys))
    return entries


def write_keys(keys: Iterable[Key]) -> str:
    return "".join(f"{_reference(key)}\n" for key in keys)


def read_keys(text: str) -> tuple[Key, ...]:
    """What is damaged is left out: it is only told."""
    return tuple(_key(one) for one in text.splitlines() if one.count("/") == 3)


def _entry(cells: Sequence[str], known: dict[str, tuple[Key, ...]]) -> Entry:
    """From the columns in their order. Thousands are read in every sync, so what is empty is not looked into.

    `known` are references that were read before: many objects come after the same few.
    """
    group, version, kind, namespace, name, uid, digest, flags, after, ignores, seen = cells
    return Entry(
        Key(group, kind, namespace, unquote(name) if "%" in name else name),
        version,
        uid,
        digest,
        "retain" in flags,
        "protect" in flags,
        (known.get(after) or known.setdefault(after, tuple(map(_key, after.split(","))))) if after else (),
        tuple(map(unquote, ignores.split(","))) if ignores else (),
        seen,
    )


def _reference(key: Key) -> str:
    return "/".join((key.group, key.kind, key.namespace, _name(key)))


def _name(key: Key) -> str:
    return key.name if _is_safe(key.name) else quote(key.name, safe=SAFE)


def _key(reference: str) -> Key:
    group, kind, namespace, name = reference.split("/")
    return Key(group, kind, namespace, unquote(name))
