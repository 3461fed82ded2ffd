"""TLS for members that others set up without it: when each stage begins and ends. What a stage is: `secured`. Pure.

How far it is stands in the ledger and is noted before anything follows from it: a pass may end anywhere. What changes
pods is a roll like any other, so a member that does not come back stops it, and no stage begins or ends while one is
not well.
"""

from __future__ import annotations

from dataclasses import replace

from fleet.apps.etcd import layout as layouts
from fleet.apps.etcd import names, secured
from fleet.apps.etcd.engine.observe import EtcdObservation, members_by_pod
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit.adoption.convergence import Pending, as_found, late
from fleet.kit.adoption.template import is_as_it_was
from fleet.kit.decide.health import describe_unwell
from fleet.kit.decide.roll import plan_roll
from fleet.kit.driver import Refusal
from fleet.kit.observe.answers import Answers
from fleet.kit.observe.observation import in_order, ledger_of, set_of
from fleet.kit.observe.world import template_of
from fleet.kit.step import Act, Decision, State, blocked, step
from fleet.kit.workload import roll

TOO_OLD = "serves clients with TLS and without on one port only from 3.4.25 and 3.5.8 on"


def is_wanted(observation: EtcdObservation) -> bool:
    """Git asks for it, and members can have it now."""
    kept = names.layout(observation.app)
    if kept is None or kept.tls or not observation.app.tls.enabled:
        return False
    return bool(kept.secured) or all(secured.serves_both(state.version) for state in observation.states.values())


def begun(observation: EtcdObservation, answers: Answers[Etcd]) -> Decision | None:
    """Before a roll: what it is to bring is noted, and members are known by what they will listen on."""
    kept = names.layout(observation.app)
    if kept is None or kept.tls:
        return None
    if kept.secured and not observation.app.tls.enabled:
        return _taken_back(observation, kept, answers)
    if not observation.app.tls.enabled or not (kept.secured or is_wanted(observation)):
        return _too_old(observation, kept, answers) if observation.app.tls.enabled else None
    if kept.secured not in ("", "open", "closing"):
        return None
    if describe_unwell(observation):
        return None  # whoever comes next says who is waited for
    if not kept.secured:
        note = "members get certificates, and serve clients with and without TLS"
        return _noted(observation, answers, replace(kept, secured="opening"), "TLSOpening", note)
    if not _rolls(observation, answers):
        return None
    if kept.secured == "open":
        note = "with this roll clients without TLS are shut out, and members speak TLS with each other"
        return _noted(
            observation, answers, secured.closing(kept, set_of(observation)["spec"]["template"]), "TLSClosing", note
        )
    return _known_as(observation, {pod: names.peer_urls(observation.app, pod) for pod in observation.voters})


def ended(observation: EtcdObservation, answers: Answers[Etcd]) -> Decision | None:
    """When nothing is left to roll: all members are through, so what they have now is what everybody uses."""
    kept = names.layout(observation.app)
    if kept is None or not observation.app.tls.enabled or describe_unwell(observation):
        return None
    if kept.secured == "opening":
        note = "all members serve clients with TLS; those without it are served until the next roll"
        return _noted(observation, answers, secured.opened(kept), "TLSOpen", note)
    if kept.secured != "closing":
        return None
    after = secured.closed(kept)
    app = names.laid_out(observation.app, after)
    moved = _known_as(observation, {pod: names.peer_urls(app, pod) for pod in observation.voters})
    return moved or _noted(observation, answers, after, "TLSClosed", "clients and members are served with TLS alone")


def pending(observation: EtcdObservation) -> Pending | None:
    """What of it is still to come."""
    kept = names.layout(observation.app)
    if kept is None or kept.tls or kept.secured == "closed" or not (observation.app.tls.enabled or kept.secured):
        return None
    if not kept.secured and not is_wanted(observation):
        return Pending("NeedsUpgrade", f"TLS comes after an upgrade: etcd {observation.oldest_version or ''} {TOO_OLD}")
    if kept.secured == "open":
        words = "clients without TLS are still served and members speak without it to each other; both end then"
        return Pending("NextRoll", words)
    if kept.secured == "closing":
        return Pending("Rolling", "TLS alone: clients without it are shut out, and members speak it with each other")
    return Pending("Rolling", "TLS: members get certificates, and serve clients with and without it")


def _rolls(observation: EtcdObservation, answers: Answers[Etcd]) -> bool:
    """Whether members are to get another template than they have."""
    current = plan_roll(observation, answers)
    return not isinstance(current, Refusal) and (template_of(current.found) != current.mark or bool(current.old()))


def _taken_back(observation: EtcdObservation, kept: Layout, answers: Answers[Etcd]) -> Decision:
    """Only as long as no pod was touched: clients may have come to rely on it since."""
    untouched = (
        as_found(observation)
        and not roll.under_way(set_of(observation))
        and set(late(observation)) == set(observation.pods)
    )
    if kept.secured == "opening" and untouched:
        return _noted(
            observation,
            answers,
            replace(kept, secured=""),
            "TLSTakenBack",
            "git does not want TLS any more: nothing changed",
        )
    return blocked(
        "StaysEncrypted",
        "git says without TLS, and members have it or are on the way to it: it is not turned off again. Say "
        "tls=TLS(enabled=True), or make a new app and restore a backup into it",
    )


def _too_old(observation: EtcdObservation, kept: Layout, answers: Answers[Etcd]) -> Decision | None:
    """An upgrade that git asks for goes first."""
    rules = answers.app_type.adoption_rules()
    is_asked = not is_as_it_was(rules, observation.app)
    goes_first = is_asked if as_found(observation) else _rolls(observation, answers)
    if goes_first:
        return None
    runs = ", ".join(sorted({state.version for state in observation.states.values()}))
    return blocked("NeedsUpgrade", f"TLS waits: etcd {runs} {TOO_OLD}. Upgrade first, by a `version` in git")


def _known_as(observation: EtcdObservation, urls: dict[str, tuple[str, ...]]) -> Decision | None:
    """One member's peer URLs after the other; None when all are as wanted."""
    for pod in in_order(urls):
        wanted = urls[pod]
        member = members_by_pod(observation)[pod]
        if set(member.peer_urls) != set(wanted):
            note = f"{pod} is known to the others as {', '.join(wanted)}"
            arguments = {"member": member.id, "peer_urls": ",".join(wanted)}
            return step(State.PROGRESSING, "Encrypting", note, Act("readdress", arguments, "Readdressed", note))
    return None


def _noted(observation: EtcdObservation, answers: Answers[Etcd], kept: Layout, reason: str, note: str) -> Decision:
    """The files follow from what is noted, so they are written with it."""
    after = replace(observation, app=names.laid_out(observation.app, kept))
    ledger = replace(ledger_of(observation), layout=layouts.write(kept))
    return step(State.PROGRESSING, "Encrypting", note, answers.record(after, ledger, reason, note))
