"""An inventory as text: a line per object, columns in a header, so that `kubectl get -o yaml` shows it to people.

Pure. Tabs instead of JSON, because the text stands inside JSON already and quotes would double its size; columns
that a later version adds come with the header, and those it does not know it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, unquote

from fleet.errors import ResourceError
from fleet.model.desired import Key
from fleet.plan.inventory import Entry

COLUMNS = ("group", "version", "kind", "namespace", "name", "uid", "hash", "flags", "after")
SAFE = ":._-~@"  # what else a name may hold is quoted; almost none needs it


def line(entry: Entry) -> str:
    key = entry.key
    flags = ",".join(flag for flag, on in (("retain", entry.retain), ("protect", entry.protect)) if on)
    after = ",".join(_reference(other) for other in entry.after)
    name = key.name if key.name.isalnum() else quote(key.name, safe=SAFE)
    return "\t".join((key.group, entry.version, key.kind, key.namespace, name, entry.uid, entry.hash, flags, after))


def write(lines: Iterable[str]) -> str:
    return "\n".join(("\t".join(COLUMNS), *lines)) + "\n"


def read(text: str) -> list[Entry]:
    """The entries; ResourceError when the text is not whole, because an inventory read in part loses objects."""
    header, *lines = text.splitlines() or [""]
    columns = {name: index for index, name in enumerate(header.split("\t"))}
    if missing := set(COLUMNS) - columns.keys() - {"flags", "after"}:
        raise ResourceError(f"an inventory without the columns {', '.join(sorted(missing))} cannot be read")
    return [_entry(columns, text) for text in lines]


def _entry(columns: dict[str, int], text: str) -> Entry:
    cells = text.split("\t")
    if len(cells) != len(columns):
        raise ResourceError(f"a line of the inventory is damaged: {text!r}")
    of = {name: cells[index] for name, index in columns.items()}
    flags = of.get("flags", "").split(",")
    return Entry(
        key=Key(of["group"], of["kind"], of["namespace"], unquote(of["name"])),
        version=of["version"],
        uid=of["uid"],
        hash=of["hash"],
        retain="retain" in flags,
        protect="protect" in flags,
        after=tuple(_key(reference) for reference in of.get("after", "").split(",") if reference),
    )


def _reference(key: Key) -> str:
    return "/".join((key.group, key.kind, key.namespace, quote(key.name, safe=SAFE)))


def _key(reference: str) -> Key:
    group, kind, namespace, name = reference.split("/")
    return Key(group, kind, namespace, unquote(name))
