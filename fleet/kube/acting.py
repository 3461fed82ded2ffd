"""In whose name requests are sent: as a service account of its own for each stack, where that is configured.

It holds for a block of code and what is started in it, so that a stack's objects are read and written with the rights
of that account, and inventories and Leases, which are fleet's, with fleet's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ACCOUNT: ContextVar[str] = ContextVar("account", default="")


@contextmanager
def acting_as(account: str) -> Iterator[None]:
    """`account` is "namespace/name"; "": as ourselves."""
    token = _ACCOUNT.set(account)
    try:
        yield
    finally:
        _ACCOUNT.reset(token)


def headers() -> dict[str, str]:
    """What a request carries for it. The server adds the groups of the account itself."""
    namespace, _, name = _ACCOUNT.get().partition("/")
    return {"Impersonate-User": f"system:serviceaccount:{namespace}:{name}"} if name else {}
