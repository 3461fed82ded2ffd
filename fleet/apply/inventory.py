"""Inventories of stacks: their text, and the ConfigMaps in `fleet-system` that hold them, as many as the size needs.

The text has a line per object and columns in a header, so that `kubectl get -o yaml` shows it to users. Tabs instead of
JSON, because the text stands inside JSON already and quotes would double its size; columns that a later version adds
come with the header, and those it does not know it leaves out.

Entries do not depend on each other and stay in the ConfigMap that they are in, so several ConfigMaps need no common
transaction: a crash between two writes leaves entries that are not filled in yet, which the next plan understands. One
that outgrew its ConfigMap moves to a later one, which is written first: for a moment it is in both.
Every write carries the resourceVersion that was read; a plan made from an older inventory is refused, not applied.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from fleet.errors import ConflictError, ResourceError
from fleet.kube.client.client import Client, Response
from fleet.kube.objects import ObjectScope, delete, pages
from fleet.kube.resources import CONFIG_MAPS, NAMESPACE, make_namespace
from fleet.names import MANAGER
from fleet.objects.desired import Key
from fleet.plan.inventory import Entry, Inventory, Suspension

COLUMNS = ("group", "version", "kind", "namespace", "name", "uid", "hash", "flags", "after")
ADDED_COLUMNS = ("ignores", "seen")  # by later versions: inventories from before do not have them
SAFE = ":._-~@"  # what else a name may hold is quoted; almost none needs it
SAFE_IN_PATHS = f"{SAFE}[]=*/"
_is_safe = re.compile(rf"[A-Za-z0-9{SAFE}]*").fullmatch  # much quicker than to quote, and thousands are asked about


def format_entry(entry: Entry) -> str:
    key = entry.key
    flags = f"{'retain' if entry.retain else ''},{'protect' if entry.protect else ''}".strip(",")
    after = ",".join([_reference(other) for other in entry.after]) if entry.after else ""
    ignores = ",".join([quote(path, safe=SAFE_IN_PATHS) for path in entry.ignores]) if entry.ignores else ""
    identity = (key.group, entry.version, key.kind, key.namespace, _key_name(key))
    return "\t".join((*identity, entry.uid, entry.hash, flags, after, ignores, entry.seen))


def format_entries(lines: Iterable[str]) -> str:
    return "\n".join(("\t".join((*COLUMNS, *ADDED_COLUMNS)), *lines)) + "\n"


def parse_entries(text: str) -> list[Entry]:
    """Return the entries; raise ResourceError for a text that is not whole: an inventory read in part loses objects."""
    header, *lines = text.splitlines() or [""]
    columns = header.split("\t")
    if missing := set(COLUMNS) - set(columns):
        raise ResourceError(f"an inventory without the columns {', '.join(sorted(missing))} cannot be read")
    positions = {name: position for position, name in enumerate(columns)}
    columns_in_order = operator.itemgetter(*(positions.get(name, len(columns)) for name in (*COLUMNS, *ADDED_COLUMNS)))
    entries, keys = [], dict[str, tuple[Key, ...]]()
    for text_line in lines:
        cells = text_line.split("\t")
        if len(cells) != len(columns):
            raise ResourceError(f"a line of the inventory is damaged: {text_line!r}")
        entries.append(_make_entry(columns_in_order([*cells, ""]), keys))
    return entries


def format_keys(keys: Iterable[Key]) -> str:
    return "".join(f"{_reference(key)}\n" for key in keys)


def parse_keys(text: str) -> tuple[Key, ...]:
    """Return the keys. Damaged ones are left out: they are only shown."""
    return tuple(_parse_key(reference) for reference in text.splitlines() if reference.count("/") == 3)


def _make_entry(cells: Sequence[str], known_references: dict[str, tuple[Key, ...]]) -> Entry:
    """Make an entry from the columns in their order.

    Thousands are read in every sync, so what is empty is not looked into. `known_references` were read before: many
    objects come after the same few.
    """
    group, version, kind, namespace, name, uid, digest, flags, after, ignores, seen = cells
    key = Key._make((group, kind, namespace, unquote(name) if "%" in name else name))  # quicker than to call the class
    created_after = (
        (known_references.get(after) or known_references.setdefault(after, tuple(map(_parse_key, after.split(",")))))
        if after
        else ()
    )
    ignored = tuple(map(unquote, ignores.split(","))) if ignores else ()
    return Entry._make((key, version, uid, digest, "retain" in flags, "protect" in flags, created_after, ignored, seen))


def _reference(key: Key) -> str:
    return "/".join((key.group, key.kind, key.namespace, _key_name(key)))


def _key_name(key: Key) -> str:
    return key.name if _is_safe(key.name) else quote(key.name, safe=SAFE)


def _parse_key(reference: str) -> Key:
    group, kind, namespace, name = reference.split("/")
    return Key(group, kind, namespace, unquote(name))


LABEL = "fleet.dev/inventory"
CHUNK_BYTES = 700_000  # bytes of a chunk: a ConfigMap may hold 1 MiB, escapes and metadata included
MOST_CHUNK_BYTES = 900_000  # what has grown in its place is let stay up to here
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class StalePlanError(ConflictError):
    """The stack's inventory was changed by another writer since the plan was made: read and plan again."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One ConfigMap. Number 0 is the head, with the names, the owner and the revision of the whole."""

    number: int
    entries: tuple[Entry, ...] = ()
    uid: str = ""
    resource_version: str = ""  # "": not in the cluster yet
    changed: str = field(default="", compare=False)  # when it was last written


@dataclass(frozen=True, slots=True)
class StoredInventory:
    """An inventory with what is needed to change it where it is."""

    inventory: Inventory
    chunks: tuple[Chunk, ...] = ()


async def load(client: Client, stack: str, cluster: str) -> StoredInventory:
    """Return the inventory of a stack; an empty one where the stack was never applied."""
    inventories = await _load(client, f"{LABEL}={stack}")
    return inventories[0] if inventories else StoredInventory(Inventory(stack, cluster))


async def read_suspension(client: Client, stack: str) -> Suspension | None:
    """Read the suspension in the inventory of a stack, and nothing else of it."""
    answer = await client.request("GET", CONFIG_MAPS.path(NAMESPACE, _part_name(stack, 0)), expect=(404,))
    return Suspension.read((answer.body.get("data") or {}).get("suspended", "")) if answer.status == 200 else None


async def load_all(client: Client) -> list[StoredInventory]:
    """Return every stack that has an inventory in the cluster, by name."""
    return await _load(client, LABEL)


async def verify(client: Client, stored: StoredInventory) -> None:
    """Raise StalePlanError unless the inventory in the cluster is still the one that was read."""
    scope = ObjectScope(CONFIG_MAPS, NAMESPACE, labels=f"{LABEL}={stored.inventory.stack}")
    answer = await client.request("GET", scope.path(), accept=METADATA_ONLY)
    versions = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in answer.body["items"] or ()}
    if versions != {chunk.uid: chunk.resource_version for chunk in stored.chunks}:
        raise _stale_error(stored.inventory.stack)


async def save(client: Client, stored: StoredInventory, inventory: Inventory) -> StoredInventory:
    """Write the ConfigMaps that differ; none when nothing does, and none are left of an empty inventory.

    One of a suspended stack is not empty: it has the suspension in it.
    """
    if inventory is stored.inventory and stored.chunks:
        return stored
    is_head_same = replace(stored.inventory, entries=()) == replace(inventory, entries=())
    remaining, emptied = [], []
    arranged = _arrange(stored.chunks, inventory.entries)
    if stored.chunks:  # what moves goes to a later one; and without the head, which is there, none could be read
        arranged.reverse()
    for old, entries in arranged:
        if not entries and (old.number > 0 or not (inventory.entries or inventory.suspension)):
            emptied.append(old)
        elif old.entries == entries and old.resource_version and (is_head_same or old.number > 0):
            remaining.append(old)
        else:
            remaining.append(await _write_chunk(client, inventory, replace(old, entries=entries)))
    for chunk in sorted(
        emptied, key=_by_number, reverse=True
    ):  # the head comes first and goes last: without it the others cannot be read
        if chunk.resource_version:
            await _remove_chunk(client, inventory.stack, chunk)
    return StoredInventory(inventory, tuple(sorted(remaining, key=_by_number)))


def _arrange(chunks: tuple[Chunk, ...], entries: tuple[Entry, ...]) -> list[tuple[Chunk, tuple[Entry, ...]]]:
    """Return each chunk with its entries to be: those it holds stay in it, new ones go where there is room. Pure.

    What has no room any more in its own goes to one behind all others.
    """
    home = {entry.key: chunk.number for chunk in chunks for entry in chunk.entries}
    existing = {chunk.number: chunk for chunk in chunks} or {0: Chunk(0)}
    content: dict[int, list[Entry]] = {number: [] for number in existing}
    size = dict.fromkeys(existing, 0)
    newcomers, outgrown = [], []
    for entry in entries:
        number, needed = home.get(entry.key), len(format_entry(entry)) + 2
        if number is None:
            newcomers.append(entry)
        elif size[number] + needed > MOST_CHUNK_BYTES:
            outgrown.append(entry)
        else:
            content[number].append(entry)
            size[number] += needed
    for unplaced, first in ((newcomers, min(existing)), (outgrown, max(existing) + 1)):
        number = first
        for entry in unplaced:
            # An intent has no uid yet; it gets one in the same place, so room for it (and `seen`) is taken now.
            needed = len(format_entry(entry)) + 2 + (0 if entry.uid else 36 + 20)
            while size.setdefault(number, 0) + needed > CHUNK_BYTES:
                number += 1
            size[number] += needed
            content.setdefault(number, []).append(entry)
    return [
        (existing.get(number, Chunk(number)), tuple(sorted(content[number], key=_by_key))) for number in sorted(content)
    ]


def _by_key(entry: Entry) -> Any:
    return entry.key


def _by_number(chunk: Chunk) -> int:
    return chunk.number


async def _load(client: Client, selector: str) -> list[StoredInventory]:
    chunks: dict[str, list[tuple[dict[str, str], Chunk]]] = {}
    async for page in pages(client, ObjectScope(CONFIG_MAPS, NAMESPACE, labels=selector), limit=8):
        for item in page["items"]:
            stack, data = item["metadata"]["labels"][LABEL], item.get("data") or {}
            chunks.setdefault(stack, []).append((data, _read_chunk(client, item["metadata"], data)))
    return [_join_chunks(client, stack, chunks[stack]) for stack in sorted(chunks)]


def _read_chunk(client: Client, metadata: dict[str, Any], data: dict[str, str]) -> Chunk:
    number = metadata["name"].rpartition(".")[2]
    if "entries" not in data or not number.isdigit():
        raise ResourceError(
            f"{client.place}: ConfigMap {NAMESPACE}/{metadata['name']} is labelled as an inventory and is none",
            hint="restore it, or delete it if it was made by mistake; nothing is changed until then",
        )
    entries = tuple(parse_entries(data["entries"]))
    our_entries = (entry for entry in metadata.get("managedFields") or () if entry.get("manager") == MANAGER)
    changed = max((str(entry.get("time", "")) for entry in our_entries), default="")
    return Chunk(int(number), entries, metadata["uid"], metadata["resourceVersion"], changed)


def _join_chunks(client: Client, stack: str, parts: list[tuple[dict[str, str], Chunk]]) -> StoredInventory:
    parts = sorted(parts, key=lambda part: part[1].number)
    head, first = parts[0]
    if first.number != 0 or head.get("stack") != stack:
        raise ResourceError(
            f"{client.place}: the first part of the inventory of stack {stack} is missing",
            hint=f"it is ConfigMap {NAMESPACE}/{_part_name(stack, 0)}; restore it from a backup, or delete the other "
            "parts to give up ownership of their objects",
        )
    inventory = Inventory(
        stack,
        head.get("cluster", ""),
        head.get("revision", ""),
        repository=head.get("repository", ""),
        changed=max(chunk.changed for _, chunk in parts),
        suspension=Suspension.read(head.get("suspended", "")),
        missing=parse_keys(head.get("missing", "")),
    )
    chunks = tuple(chunk for _, chunk in parts)
    return StoredInventory(inventory.with_entries(entry for chunk in chunks for entry in chunk.entries), chunks)


async def _write_chunk(client: Client, inventory: Inventory, chunk: Chunk) -> Chunk:
    name = _part_name(inventory.stack, chunk.number)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {LABEL: inventory.stack, "app.kubernetes.io/managed-by": "fleet"},
    }
    data = {"entries": format_entries(map(format_entry, chunk.entries))}
    if chunk.number == 0:
        data |= {"stack": inventory.stack, "cluster": inventory.cluster, "revision": inventory.revision}
        data |= {"repository": inventory.repository} if inventory.repository else {}
        data |= {"suspended": inventory.suspension.line()} if inventory.suspension else {}
        data |= {"missing": format_keys(inventory.missing)} if inventory.missing else {}
    if chunk.resource_version:
        metadata |= {"uid": chunk.uid, "resourceVersion": chunk.resource_version}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    answer = await _send_chunk(client, chunk, body)
    if answer.status == 404 and not chunk.resource_version:
        await make_namespace(client)
        answer = await _send_chunk(client, chunk, body)
    written = answer.body
    if answer.status in (404, 409) and answer.repeated:  # the first try may have been ours: look
        current = await client.request("GET", CONFIG_MAPS.path(NAMESPACE, name), expect=(404,))
        written = current.body if current.status == 200 and current.body.get("data") == data else None
    elif answer.status in (404, 409):
        written = None
    if written is None:
        raise _stale_error(inventory.stack)
    metadata_written = written["metadata"]
    return replace(chunk, uid=metadata_written["uid"], resource_version=metadata_written["resourceVersion"])


async def _send_chunk(client: Client, chunk: Chunk, body: dict[str, Any]) -> Response:
    query = f"?fieldManager={MANAGER}"
    if chunk.resource_version:
        path = CONFIG_MAPS.path(NAMESPACE, body["metadata"]["name"])
        return await client.request("PUT", path + query, body=body, expect=(404, 409))
    return await client.request("POST", CONFIG_MAPS.collection(NAMESPACE) + query, body=body, expect=(404, 409))


async def _remove_chunk(client: Client, stack: str, chunk: Chunk) -> None:
    answer = await delete(
        client,
        CONFIG_MAPS,
        NAMESPACE,
        _part_name(stack, chunk.number),
        uid=chunk.uid,
        resource_version=chunk.resource_version,
    )
    if answer.status == 409:
        raise _stale_error(stack)


def _part_name(stack: str, number: int) -> str:
    return f"{stack}.inventory.{number}"


def _stale_error(stack: str) -> StalePlanError:
    return StalePlanError(
        f"stack {stack} was changed by somebody else since this plan was made",
        hint="plan again: sync does so by itself",
    )
