"""When the certificates of an app end, and whether one should have been made anew by now. Pure.

Certificates are renewed after two thirds of their life (`certificates`). One that is older than that by a while was not
renewed, for whatever reason: people hear of it long before clients are turned away.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet.kit.credentials.certificates import lifetime_of
from fleet.kit.observe.world import World
from fleet.kit.status import Conditions

CONDITION = "CertificatesValid"
_LONGEST_DELAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Expiry:
    """A certificate in a Secret, and when it ends."""

    secret: str
    begins: datetime.datetime
    ends: datetime.datetime
    is_ours: bool = True  # made by the operator; others renew theirs when they like

    @property
    def overdue_from(self) -> datetime.datetime:
        """When its renewal is late: a twelfth of its life (a day at most) after it was due, or before its end."""
        life = self.ends - self.begins
        delay = min(life / 12, _LONGEST_DELAY)
        return self.begins + life * 2 / 3 + delay if self.is_ours else self.ends - delay


def list_expiries(world: World, secrets: Iterable[str], *, are_ours: bool = True) -> list[Expiry]:
    """Return when the certificates in Secrets of the app end, the first to end first.

    One that is not there or cannot be read is left out: it is made anew with the next reconcile.
    """
    found: list[Expiry] = []
    for name in secrets:
        held = world.secret(name).get("tls.crt", b"")
        with contextlib.suppress(ValueError):
            found.append(Expiry(name, *lifetime_of(held), is_ours=are_ours))
    return sorted(found, key=lambda expiry: expiry.ends)


def describe_overdue(expiries: Iterable[Expiry], now: datetime.datetime) -> str:
    """Say which certificates should have been renewed by now; "" while all were."""
    late = [expiry for expiry in expiries if now >= expiry.overdue_from]
    words = [f"{expiry.secret} {'ended' if now >= expiry.ends else 'ends'} on {_say(expiry.ends)}" for expiry in late]
    return f"certificates should have been renewed: {', '.join(words)}" if words else ""


def list_conditions(expiries: Sequence[Expiry], now: datetime.datetime) -> Conditions:
    """Return the condition with the date on which the first of them ends; none for an app without certificates."""
    if not expiries:
        return ()
    if overdue := describe_overdue(expiries, now):
        return ((CONDITION, "False", "Overdue", overdue),)
    first = expiries[0]
    return ((CONDITION, "True", "Valid", f"the first to end is that of {first.secret}, on {_say(first.ends)}"),)


def _say(time: datetime.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
