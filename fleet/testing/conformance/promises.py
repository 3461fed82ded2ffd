"""Cases about promises: other releases, what a change costs, Secrets that are lost, deletion, capabilities."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from fleet.kit.app_type import AppType
from fleet.kit.driver import Capabilities, Impact
from fleet.testing.conformance.subject import Change, Subject, fingerprint
from fleet.testing.conformance.watching import compare_ends, go_through, installed, keeps_writes, serves_clients
from fleet.text import count_noun

IDLE = 5  # reconciles in which nothing may be done
KEPT = "PersistentVolumeClaim"


def outlive_a_release(subject: Subject) -> None:
    """Write nothing and restart nobody when the operator is another release with other images of its own."""
    trial = installed(subject)
    before, made = list(trial.moves), trial.cluster.pods_made
    trial.make_engine = subject.next_release or subject.make_engine
    trial.restart()
    for _ in range(IDLE):
        trial.reconcile_once()
        trial.tick()
    written = [move for move in trial.moves[len(before) :] if not move.startswith("apply CronJob")]
    assert not written, f"another release of the operator wrote {written}"
    assert trial.cluster.pods_made == made, "another release of the operator restarted members"


def cost_what_is_said(subject: Subject, change: Change) -> None:
    """Restart every member once where the type says so, and nobody where it says that nobody restarts."""
    app_type = subject.app_type
    costs = [app_type.classify(name) for name in _changed_fields(app_type, change)] if app_type is not None else []
    if not costs or change.resizes:
        return
    went = go_through(subject, change)
    restarted, members = went.pods_made, len(went.trial.cluster.list_objects("Pod"))
    if {Impact.RESTART, Impact.UPGRADE} & {*costs}:
        assert 0 < restarted <= members, f"{change}: {restarted} of {members} members were made anew"
    else:
        assert not restarted, (
            f"{change} is said to cost {', '.join(costs)}, and it restarted {count_noun(restarted, 'pod')}"
        )


def _changed_fields(app_type: AppType[Any], change: Change) -> list[str]:
    names = {field.alias or name: name for name, field in app_type.app.model_fields.items()}
    found = []
    for name, value in change.spec.items():
        own = names.get(name, name)
        found += [f"{own}.{part}" for part in value] if isinstance(value, dict) else [own]
    return found


def survive_lost_secrets(subject: Subject) -> None:
    """Make a Secret again that somebody deleted, one at a time, and restart nobody for it."""
    secrets = [found["metadata"]["name"] for found in installed(subject).cluster.list_objects("Secret")]
    for name in secrets:
        if name in subject.irreplaceable:
            continue
        trial = installed(subject)
        made = trial.cluster.pods_made
        trial.checks.append(serves_clients)
        trial.cluster.remove("Secret", name)
        trial.settle()
        assert trial.cluster.get("Secret", name) is not None, f"the Secret {name} is gone for good"
        assert trial.cluster.pods_made == made, f"members restarted for the Secret {name}"


def keep_data(subject: Subject) -> None:
    """Take the app out and leave its volumes; made again, it goes on with what is on them."""
    trial = installed(subject)
    end = fingerprint(trial.cluster, trial.members)
    claims = _names(trial.cluster.list_objects(KEPT))
    trial.tear_down()
    assert _names(trial.cluster.list_objects(KEPT)) == claims, "volumes went with the app, and git did not say so"
    left = [move for kind in ("Pod", "StatefulSet", "ConfigMap", "Secret") for move in trial.cluster.list_objects(kind)]
    assert not left, f"it left {_names(left)}"
    if subject.begins_again:
        trial.checks.append(keeps_writes)
        trial.restart()
        trial.settle()
        compare_ends(trial, end, "deleted and made again")


def take_data(subject: Subject) -> None:
    """Take the app out with its volumes where git says so."""
    if subject.takes_data is None:
        return
    trial = installed(subject)
    trial.change(**subject.takes_data)
    trial.settle()
    trial.tear_down()
    assert not trial.cluster.list_objects(KEPT), "volumes stayed, and git says that they go"


def adopt(subject: Subject) -> None:
    """Take over what others made and give it back, killed after every move: no pod is made anew."""
    from fleet.testing.adoption import AdoptionSubject, check_adoption  # which takes its trials from here

    if subject.app_type is not None and subject.as_found:
        check_adoption(AdoptionSubject(subject.app_type, subject.as_found))


def prove_capabilities(subject: Subject) -> None:
    """Claim no capability that no case and no test has proved."""
    if subject.app_type is None:
        return
    claimed = {each.name for each in fields(Capabilities) if getattr(subject.app_type.caps, each.name)}
    proved = {change.proves for change in subject.changes}
    if subject.as_found or type(subject.app_type).discovery is AppType.discovery:
        proved.add("adopt")  # by C14; what every declaration inherits is proved for the kit
    if len(subject.app_type.versions.series) == 1:
        proved.add("upgrade")  # from patch to patch alone: a roll as any other
    for name in sorted(claimed - proved):
        test = subject.proved_by.get(name, "")
        file, _, function = test.partition("::")
        assert test, f"{subject.app_type.name} claims {name}, and no case proves it"
        assert f"def {function}(" in Path(file).read_text(), f"{test}, which is to prove {name}, is not there"


def _names(objects: list[dict[str, object]]) -> list[str]:
    return [str(found["metadata"]["name"]) for found in objects]  # type: ignore[index]
