"""A mapping of strings that cannot change, in the place of dicts inside objects that cannot change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class FrozenMap(Mapping[str, str]):
    """Ordered by key, hashable, and equal to a dict with the same content."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        self._items = dict(sorted((items or {}).items()))

    def __getitem__(self, key: str) -> str:
        return self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)
