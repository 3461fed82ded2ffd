"""A request as the API server understands it, as a verb on a resource; and the proxy's record of one."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote

import orjson

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "HEAD": "get"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})  # of the Namespace itself, not names of kinds inside it


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `resource` is a plural, with the subresource if there is one (`pods/log`), or "" for other paths."""

    method: str
    path: str  # with the query, as it was sent
    agent: str = ""
    verb: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool = False

    @classmethod
    def of(cls, method: str, path: str, agent: str = "", body: bytes = b"") -> Call:
        """Return the request that a method, a path and a body make."""
        plain, _, text = path.partition("?")
        query = parse_qs(text, keep_blank_values=True) if text else {}
        group, parts = _split_group(plain.strip("/").split("/"))
        watch = query.get("watch", ["0"])[0] in ("1", "true", "")
        if parts and parts[0] == "watch":  # the form of old, which servers still know
            parts, watch = parts[1:], True
        namespace = ""
        if len(parts) > 1 and parts[0] == "namespaces":
            namespace = parts[1]
            if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
                parts = parts[2:]
        name = unquote(parts[1]) if len(parts) > 1 else ""
        return cls(
            method,
            path,
            agent,
            verb=_verb(method, name, resource=bool(parts), watch=watch),
            group=group,
            resource="/".join((parts[0], *parts[2:3])) if parts else "",
            namespace=namespace,
            name=name,
            dry_run="dryRun" in query or (method == "DELETE" and _is_dry_run(body)),
        )

    @property
    def writes(self) -> bool:
        """Return whether it could change something: dry-runs do not, and neither do reviews of rights."""
        return self.verb in WRITES and not self.dry_run and not self.resource.endswith("reviews")


def _split_group(parts: list[str]) -> tuple[str, list[str]]:
    """Return the group, and the parts of the path after its version.

    Both are empty for what is no resource (discovery, health, metrics).
    """
    if parts[0] == "api":
        return "", parts[2:]
    if parts[0] == "apis" and len(parts) > 2:
        return parts[1], parts[3:]
    return "", []


def _is_dry_run(options: bytes) -> bool:
    """Return whether the options of a deletion say so: as JSON, or packed, where it is the fifth field."""
    if options.startswith(b"k8s\x00"):
        return b"\x2a\x03All" in options
    try:
        document = orjson.loads(options)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and bool(document.get("dryRun"))


def _verb(method: str, name: str, *, resource: bool, watch: bool) -> str:
    if not resource:
        return method.lower()
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    if method == "GET":
        return "watch" if watch else "get" if name else "list"
    return _VERBS.get(method, method.lower())


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request, once its response began or it was certain that there would be none."""

    call: Call
    status: int  # of the answer; 0: there was none
    seconds: float  # from the request to the beginning of the answer
    acts: tuple[str, ...] = ()  # what the plan did to it
