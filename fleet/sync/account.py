"""Which service account a stack is applied with: a pattern of fleet.toml, which stacks have no say in. Pure."""

from __future__ import annotations


def account_of(pattern: str, stack: str) -> str:
    """ "tenants/{stack}" → "tenants/orders"; "": none of its own."""
    return pattern.replace("{stack}", stack)
