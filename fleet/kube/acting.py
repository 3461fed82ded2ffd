"""In whose name requests are sent: as the kubeconfig's `as` says, or as a service account of its own for each stack.

The account holds for a block of code and what is started in it, so that a stack's objects are read, written and
watched with the rights of that account, and inventories and Leases, which are fleet's, with fleet's own. A server takes
one name per request, and the account's replaces all that the kubeconfig says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from fleet.kube.kubeconfig import Headers

_ACCOUNT: ContextVar[str] = ContextVar("account", default="")


@contextmanager
def acting_as(account: str) -> Iterator[None]:
    """`account` is "namespace/name"; "": as ourselves."""
    token = _ACCOUNT.set(account)
    try:
        yield
    finally:
        _ACCOUNT.reset(token)


def headers(own: Headers) -> Headers:
    """Return what a request carries for it. The server adds the groups of an account itself.

    `own` is what the kubeconfig says.
    """
    namespace, _, name = _ACCOUNT.get().partition("/")
    return {"Impersonate-User": f"system:serviceaccount:{namespace}:{name}"} if name else own


def pairs(headers: Mapping[str, str | tuple[str, ...]]) -> list[tuple[str, str]]:
    """Return a name and a value for each line that is sent."""
    return [
        (name, value)
        for name, values in headers.items()
        for value in ((values,) if isinstance(values, str) else values)
    ]


def lines(headers: Mapping[str, str | tuple[str, ...]]) -> str:
    """Return the lines of a request's head. Raise ValueError where a value would be a line of its own."""
    every = pairs(headers)
    text = "".join([f"{name}: {value}\r\n" for name, value in every])
    if not text.count("\n") == text.count("\r") == len(every):
        raise ValueError("a header has a line break")
    return text
