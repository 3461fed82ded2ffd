"""Server answers and broken connections as `fleet.errors`: which verb on what, where, and how to check. Pure.

This is the one place where HTTP becomes an error that a user can act on.

It also finds fields that a kind does not declare: a typing error in a manifest, or a definition that is older than the
manifest. Server-side apply refuses most of them, but with a 500, as if the server had failed; such an answer must not
be tried again nor read as "may have happened". Inside an object that a definition leaves open without saying so, the
server takes them and silently drops them (`fieldValidation=Strict` changes neither): every later sync would send them
again.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fleet.errors import AccessError, ConflictError, FleetError, NotFoundError, ResourceError
from fleet.objects import fields

_REFUSED = "failed to create typed patch object ("
_UNDECODED = "failed to convert new object ("  # of a value that the server's Go types cannot hold
_BUILT_IN = frozenset({"", "apps", "batch", "autoscaling", "policy", "extensions"})


def find_complaints(status: int, message: str) -> list[str]:
    """Return what is wrong with each field, as `spec.replica: field not declared in schema`; [] for another failure.

    Of a value that cannot be decoded the server does not say which it is.
    """
    if status != 500 or not message.startswith((_REFUSED, _UNDECODED)):
        return []
    if message.startswith(_UNDECODED):
        return [message.rpartition("unable to convert unstructured object to ")[2].partition(": ")[2] or message]
    text = message.partition("): ")[2].removeprefix("errors:")
    return [line.strip().removeprefix(".") for line in text.splitlines() if line.strip()]


def path_of(complaint: str) -> str:
    """Return the field of one of the lines of `find_complaints`; "" if it names none."""
    field = complaint.partition(": ")[0]
    return "" if " " in field else field


def dropped_fields(group: str, manifest: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """Return the fields of a custom resource that were sent and are not in the answer.

    Built-in kinds do not drop fields in this way.
    """
    if group in _BUILT_IN or group.endswith(".k8s.io"):
        return []
    missing: list[str] = []
    for name, value in manifest.items():
        if name not in ("apiVersion", "kind", "metadata", "status"):
            _collect_missing(value, stored.get(name), name, missing)
    return missing


def _collect_missing(sent: Any, stored: Any, path: str, missing: list[str]) -> None:
    if isinstance(sent, dict) and isinstance(stored, dict):
        for name, value in sent.items():
            if name in stored:
                _collect_missing(value, stored[name], fields.child_path(path, name), missing)
            else:
                missing.append(fields.child_path(path, name))
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for position, (item, stored_item) in enumerate(zip(sent, stored, strict=True)):
            _collect_missing(item, stored_item, f"{path}[{position}]", missing)
    elif stored is None:
        missing.append(path)


class UnansweredError(ResourceError):
    """Error for a request without an answer that says whether it was carried out: it may have been."""


class UnreachableError(UnansweredError):
    """Error for a request without any answer: the server is away, or the network to it is.

    A failure that the server answers with is another error.
    """


class OverloadedError(ResourceError):
    """Error for an API server that is overloaded: it did nothing, and a later request may succeed."""


class NoRightError(AccessError):
    """Error for a missing right: the server knows who asked, so reading the credentials anew changes nothing."""


class BrokenError(ConnectionError):
    """Error for a request without an answer."""

    def __init__(self, problem: BaseException, *, sent: bool = True, trusted: bool = True) -> None:
        super().__init__(str(problem) or type(problem).__name__)
        self.sent = sent  # False: it certainly did not reach the server
        self.trusted = trusted


def may_pass(problem: BaseException) -> bool:
    """Return whether a broken connection may work again.

    A server that is restarting refuses or drops connections; a certificate that is not trusted stays so.
    """
    return problem.trusted if isinstance(problem, BrokenError) else not isinstance(problem, ssl.SSLError)


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The cluster that a request went to, in the words of the user."""

    cluster: str
    server: str
    context: str

    def __str__(self) -> str:
        return f"cluster {self.cluster}" if self.cluster else self.server

    @property
    def flag(self) -> str:
        """Return the flag that makes kubectl use this context."""
        return f" --context {self.context}" if self.context else ""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a request asked for, read from its method and path: `patch deployments.apps orders/db`."""

    verb: str
    resource: str  # "configmaps", "deployments.apps"
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.title}".rstrip()

    @property
    def title(self) -> str:
        return "/".join(part for part in (self.namespace, self.name) if part)


GRANTS = "is attempting to grant RBAC permissions not currently held"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def request_context(method: str, path: str) -> RequestContext:
    """Return what a request asks for: the inverse of a resource's path.

    For other paths (discovery, /version) the path is the resource.
    """
    parts = path.partition("?")[0].strip("/").split("/")
    group = ""
    if parts[0] == "api" and len(parts) > 2:
        parts = parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, parts = parts[1], parts[3:]
    else:
        return RequestContext(_VERBS.get(method, "get"), path.partition("?")[0])
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    verb = _VERBS.get(method) or ("get" if name else "list")
    return RequestContext(verb, f"{parts[0]}.{group}" if group else parts[0], namespace, name)


def error_of_response(place: RequestTarget, what: RequestContext, status: int, body: Any) -> FleetError:
    """Return the error for an answer that is not a success."""
    message = error_text(body) or f"HTTP {status}"
    if complaints := find_complaints(status, message):
        return ResourceError(
            f"{place} does not take {what.resource} {what.title}: {'; '.join(complaints)}",
            hint=f"is it spelled right? kubectl explain {what.resource.partition('.')[0]} --recursive{place.flag}",
            field=path_of(complaints[0]) or None,
        )
    if status == 401:
        return AccessError(
            f"{place}: the credentials were refused ({message}) to {what}",
            hint=f"check with: kubectl auth whoami{place.flag}",
        )
    if status == 403 and _is_missing_right(message):
        scope = f" -n {what.namespace}" if what.namespace else ""
        return NoRightError(
            f"{place}: no right to {what}: {message}",
            hint=f"check with: kubectl auth can-i {what.verb} {what.resource}{scope}{place.flag}",
        )
    if status == 403 and GRANTS in message:
        return NoRightError(
            f"{place}: no right to {what}: it gives rights that you do not have yourself",
            hint="whoever administers the cluster can let you: with the verb bind on the role that it names, "
            "as in `kubectl create clusterrole NAME --verb=bind --resource=clusterroles --resource-name=ROLE`",
        )
    if status == 404:
        return NotFoundError(f"{place}: {what}: {message}")
    if status == 409:
        return ConflictError(f"{place}: {what}: {message}")
    hint = {
        429: "the API server is overloaded; try again later or with less concurrency",
        422: "the object is not valid for this cluster; `kubectl explain` shows the fields of its kind",
    }.get(status)
    kind = UnansweredError if status >= 500 else OverloadedError if status == 429 else ResourceError
    return kind(f"{place}: {what} failed: {message}", hint=hint)


def error_of_redirect(place: RequestTarget, what: RequestContext, status: int, location: str) -> FleetError:
    """Return the error for an answer that points elsewhere: it is not followed, and nothing was done here."""
    try:
        target = urlsplit(location)
        host = target.hostname or ""
    except ValueError:
        target, host = None, ""
    where = f"{target.scheme or 'https'}://{host}" if target and host else "another path of the same server"
    return ResourceError(
        f"{place}: {what} failed: the server sends on to {where} (HTTP {status}), which is not followed",
        hint=f"is {place.server} the API server itself? A gateway or a page to log in at may answer in its place",
    )


def error_of_connection(place: RequestTarget, what: RequestContext, problem: BaseException) -> FleetError:
    """Return the error for a request that got no answer.

    What it asked for may have happened: never read it as "no".
    """
    reason = str(problem) or type(problem).__name__
    if isinstance(problem, TimeoutError):
        reason = "no answer in time"
    if not may_pass(problem):
        return AccessError(
            f"cannot trust {place} at {place.server} (context {place.context or 'of the pod'}): {reason}",
            hint="the kubeconfig's certificate-authority must be the one that signed the API server's certificate",
        )
    return UnreachableError(
        f"cannot reach {place} at {place.server} (context {place.context or 'of the pod'}) to {what}: {reason}",
        hint=f"check with: kubectl{place.flag} version",
    )


def error_text(body: Any) -> str:
    """Return the message of a Status object, or the text that a proxy before the server answered."""
    if isinstance(body, dict):
        return str(body.get("message") or body.get("reason") or "")
    if isinstance(body, bytes):
        return body.decode(errors="replace").strip()[:500]
    return str(body or "")


def _is_missing_right(message: str) -> bool:
    """Return whether a message with status 403 is RBAC's.

    Quotas, terminating namespaces and admission refuse with 403 too, and that is no matter of rights.
    """
    return " cannot " in message and ("resource" in message or "path" in message)
