"""On which terms objects are compared: what else is known about them than the objects say themselves."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.model.secrecy import BUILT_IN, Secrecy


@dataclass(frozen=True, slots=True)
class Terms:
    secrecy: Secrecy = BUILT_IN
    exact: bool = False  # "live" is what a commit says and not what a server made of it: nothing in it is a default


USUAL = Terms()
