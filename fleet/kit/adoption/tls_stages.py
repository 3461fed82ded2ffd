"""TLS for members that others set up without it: when each stage of it begins and ends. Pure.

Nobody is cut off on the way, and every stage may last for ever:

    opening   members get certificates one after the other, and serve clients with and without TLS on the same port
    open      all of them do: the operator, backups and clients that read the connection Secret use TLS
    closing   the next roll: what is plain goes
    closed    TLS alone

How far it is stands in the ledger and is noted before anything follows from it: a pass may end anywhere. What changes
pods is a roll like any other, so a member that does not come back stops it, and no stage begins or ends while one is
not well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from fleet.kit import names
from fleet.kit.adoption.convergence import Pending, as_found, late
from fleet.kit.adoption.encryption import Stage
from fleet.kit.adoption.rules import AdoptionRules
from fleet.kit.adoption.template import is_as_it_was
from fleet.kit.decide.health import describe_unwell
from fleet.kit.decide.roll import plan_roll
from fleet.kit.driver import Refusal
from fleet.kit.names import AdoptedNames
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import Observation, ledger_of, set_of
from fleet.kit.observe.world import Object, template_of
from fleet.kit.step import Decision, State, blocked, step
from fleet.kit.workload import roll
from fleet.model.app import App


class StagedLayout(AdoptedNames, Protocol):
    """What an app keeps of members that may get TLS."""

    @property
    def secured(self) -> Stage: ...  # how far TLS with certificates of fleet's own is, where none was found
    @property
    def tls(self) -> bool: ...  # whether it was found with TLS


A = TypeVar("A", bound=App)
L = TypeVar("L", bound=StagedLayout)


class TlsStages(Generic[A, L]):
    """The stages of one app type."""

    too_old = ""  # what releases that serve nobody both ways are told: "serves clients … only from 3.5 on"

    def __init__(self, rules: AdoptionRules[A, L]) -> None:
        self.rules = rules

    # What an engine says

    def serves_both(self, version: str) -> bool:
        """Tell whether a release serves clients with TLS and without on one port."""
        return True

    def at(self, layout: L, stage: Stage, template: Object) -> L:
        """Return a layout at a stage; `template` is that of the pods as they are."""
        raise NotImplementedError

    def readdress(self, observation: Observation[A], app: A) -> Decision | None:
        """Have members known by the addresses that `app` says they have; None when all are."""
        return None

    # What follows from it

    def is_wanted(self, observation: Observation[A]) -> bool:
        """Tell whether git asks for it, and members can have it now."""
        layout = self._layout(observation)
        if layout is None or not _is_in_git(observation.app):
            return False
        return bool(layout.secured) or all(self.serves_both(state.version) for state in observation.states.values())

    def begin(self, observation: Observation[A], answers: Answers[A]) -> Decision | None:
        """Note what a roll is to bring before it begins, and have members known by what they will listen on."""
        layout, app = self._layout(observation), observation.app
        if layout is None:
            return None
        if layout.secured and not _is_in_git(app):
            return self._take_back(observation, layout, answers)
        if not _is_in_git(app) or not (layout.secured or self.is_wanted(observation)):
            return self._refuse_too_old(observation, answers) if _is_in_git(app) else None
        if layout.secured not in ("", "open", "closing") or describe_unwell(observation):
            return None  # whoever comes next says who is waited for
        if not layout.secured:
            note = "members get certificates, and serve clients with and without TLS"
            return self._note(observation, answers, self._at(observation, layout, "opening"), "TLSOpening", note)
        if not _rolls(observation, answers):
            return None
        if layout.secured == "open":
            note = "with this roll clients without TLS are shut out, and members speak TLS with each other"
            return self._note(observation, answers, self._at(observation, layout, "closing"), "TLSClosing", note)
        return self.readdress(observation, app)

    def end(self, observation: Observation[A], answers: Answers[A]) -> Decision | None:
        """Note that all members are through, when nothing is left to roll: what they have now is what everybody
        uses."""
        layout = self._layout(observation)
        if layout is None or not _is_in_git(observation.app) or describe_unwell(observation):
            return None
        if layout.secured == "opening":
            note = "all members serve clients with TLS; those without it are served until the next roll"
            return self._note(observation, answers, self._at(observation, layout, "open"), "TLSOpen", note)
        if layout.secured != "closing":
            return None
        after = self._at(observation, layout, "closed")
        note = "clients and members are served with TLS alone"
        moved = self.readdress(observation, names.lay_out(observation.app, after))
        return moved or self._note(observation, answers, after, "TLSClosed", note)

    def pending(self, observation: Observation[A]) -> Pending | None:
        """Return what of it is still to come."""
        layout = self._layout(observation)
        if layout is None or layout.secured == "closed" or not (_is_in_git(observation.app) or layout.secured):
            return None
        if not layout.secured and not self.is_wanted(observation):
            runs = f"{self.rules.app_type.name} {observation.oldest_version or ''}"
            return Pending("NeedsUpgrade", f"TLS comes after an upgrade: {runs} {self.too_old}")
        if layout.secured == "open":
            words = "clients without TLS are still served and members speak without it to each other; both end then"
            return Pending("NextRoll", words)
        if layout.secured == "closing":
            words = "TLS alone: clients without it are shut out, and members speak it with each other"
            return Pending("Rolling", words)
        return Pending("Rolling", "TLS: members get certificates, and serve clients with and without it")

    def _layout(self, observation: Observation[A]) -> L | None:
        """Return the layout of members that were found without TLS; None for others."""
        layout: Any = names.adopted_names(observation.app)
        return None if layout is None or layout.tls else layout

    def _at(self, observation: Observation[A], layout: L, stage: Stage) -> L:
        return self.at(layout, stage, set_of(observation)["spec"]["template"])

    def _take_back(self, observation: Observation[A], layout: L, answers: Answers[A]) -> Decision:
        """Take it back as long as no pod was touched: clients may have come to rely on it since."""
        is_untouched = (
            as_found(observation)
            and not roll.under_way(set_of(observation))
            and set(late(observation)) == set(observation.pods)
        )
        if layout.secured == "opening" and is_untouched:
            note = "git does not want TLS any more: nothing changed"
            return self._note(observation, answers, self._at(observation, layout, ""), "TLSTakenBack", note)
        return blocked(
            "StaysEncrypted",
            "git says without TLS, and members have it or are on the way to it: it is not turned off again. Say "
            "tls=TLS(enabled=True), or make a new app and restore a backup into it",
        )

    def _refuse_too_old(self, observation: Observation[A], answers: Answers[A]) -> Decision | None:
        """Say that members are too old for it. An upgrade that git asks for goes first."""
        is_asked = not is_as_it_was(self.rules, observation.app)
        goes_first = is_asked if as_found(observation) else _rolls(observation, answers)
        if goes_first:
            return None
        runs = ", ".join(sorted({state.version for state in observation.states.values()}))
        upgrade = "Upgrade first, by a `version` in git"
        return blocked("NeedsUpgrade", f"TLS waits: {answers.name} {runs} {self.too_old}. {upgrade}")

    def _note(self, observation: Observation[A], answers: Answers[A], layout: L, reason: str, note: str) -> Decision:
        """Write how far it is. The files follow from what is noted, so they are written with it."""
        after = replace(observation, app=names.lay_out(observation.app, layout))
        ledger = replace(ledger_of(observation), layout=self.rules.dump_layout(layout))
        return step(State.PROGRESSING, "Encrypting", note, answers.record(after, ledger, reason, note))


def _is_in_git(app: App) -> bool:
    return bool(getattr(getattr(app, "tls", None), "enabled", False))


def _rolls(observation: Observation[A], answers: Answers[A]) -> bool:
    """Tell whether members are to get another template than they have."""
    current = plan_roll(observation, answers)
    return not isinstance(current, Refusal) and (template_of(current.found) != current.mark or bool(current.old()))
