"""On which hosts alone a volume is reached: where the data of a pod can be that no node takes. Pure."""

from __future__ import annotations

from fleet.kit.step import Object

HOST = "kubernetes.io/hostname"


def hosts(volume: Object) -> frozenset[str] | None:
    """Return the hosts from which alone a volume is reached; None when that is not said by their names: it may be
    reached elsewhere."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    found: set[str] = set()
    for term in required.get("nodeSelectorTerms") or ():  # one of them is enough
        named = [
            set(one.get("values") or ())
            for one in term.get("matchExpressions") or ()
            if (one["key"], one["operator"]) == (HOST, "In")
        ]
        if not named:
            return None
        found |= set.intersection(*named)
    return frozenset(found) or None


def known_hosts(nodes: list[Object]) -> frozenset[str]:
    """Return hosts by the name of the node, and by the one that volumes know it by."""
    labels = (str((node["metadata"].get("labels") or {}).get(HOST, "")) for node in nodes)
    return frozenset(name for name in (*labels, *(str(node["metadata"]["name"]) for node in nodes)) if name)
