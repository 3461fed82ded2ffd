"""What to do next about an etcd: what it has to do about each concern, for the core to go through in order. Pure.

Nothing is remembered between passes but what the ledger, the StatefulSet and etcd itself hold, so that a pass may end
anywhere and the next one goes on from what it finds.
"""

from __future__ import annotations

from fleet.apps.etcd import names
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine import encrypt
from fleet.apps.etcd.engine.adoption import adopted, as_found, changes_over, late, let_go, owned_by_others
from fleet.apps.etcd.engine.change import Images, arrived, chosen_image, failed_roll, revived, rolled, stays
from fleet.apps.etcd.engine.founding import founded
from fleet.apps.etcd.engine.join import joined, scaled_out, settled
from fleet.apps.etcd.engine.leave import removed
from fleet.apps.etcd.engine.quorum import recovery, without_majority
from fleet.apps.etcd.engine.repair import corrupted, irreparable, mended_though_full, repaired, space
from fleet.apps.etcd.engine.secrets import unsigned
from fleet.apps.etcd.engine.seen import Seen, ledger_of
from fleet.apps.etcd.engine.upkeep import all_well, filed, grown, no_strangers, one_cluster, staffed, tidied
from fleet.apps.etcd.kept import as_it_was
from fleet.kit import names as kit_names
from fleet.kit.order import Concern, Concerns
from fleet.kit.pods import pod_template
from fleet.kit.step import Decision, State, blocked
from fleet.text import count_noun

OPERATOR = "fleet-operator"  # among the images: the operator's own, for Jobs
SETTLED_SECONDS = 10.0  # between probes of an etcd that is well


def concerns(seen: Seen, images: Images, trust: str = "") -> Concerns:
    """For an etcd whose Services and certificates are in place."""
    if as_found(seen):
        return _as_found(seen, images, trust)
    return {
        Concern.ADOPTION: (lambda: adopted(seen, images), lambda: _set_is_there(seen), lambda: let_go(seen)),
        Concern.FOUNDING: (
            lambda: unsigned(seen),
            lambda: founded(
                seen,
                pod_template(DRIVER, seen.app, chosen_image(seen, seen.app, images), trust),
                images.get(OPERATOR, ""),
            ),
            lambda: filed(seen),
        ),
        Concern.IDENTITY: (lambda: one_cluster(seen),),
        Concern.RECOVERY: (lambda: recovery(seen),),
        Concern.STAFF: (lambda: staffed(seen),),
        Concern.ROLLBACK: (lambda: failed_roll(seen, images, trust),),
        Concern.REVIVAL: (lambda: revived(seen, images, trust),),
        Concern.QUORUM: (lambda: without_majority(seen), lambda: no_strangers(seen)),
        Concern.CORRUPTION: (lambda: corrupted(seen, late(seen)),),
        Concern.SPACE: (lambda: mended_though_full(seen), lambda: space(seen)),
        Concern.REPAIR: (lambda: stays(seen), lambda: irreparable(seen, late(seen)), lambda: repaired(seen)),
        Concern.LEAVING: (lambda: removed(seen),),
        Concern.JOINING: (lambda: joined(seen), lambda: settled(seen)),
        Concern.TIDYING: (lambda: tidied(seen),),
        Concern.VOLUMES: (lambda: grown(seen),),
        Concern.SCALE: (lambda: None if changes_over(seen) else scaled_out(seen),),
        Concern.ROLL: (
            lambda: encrypt.begun(seen, images, trust),
            lambda: rolled(seen, images, trust),
            lambda: encrypt.ended(seen),
        ),
        Concern.HEALTH: (lambda: all_well(seen), lambda: arrived(seen, images)),
    }


def _as_found(seen: Seen, images: Images, trust: str) -> Concerns:
    """For members that others set up, until the first roll: their pods read no files of ours, so nobody can join."""
    kept = names.layout(seen.app)
    wanted = kept is not None and (not as_it_was(seen.app, kept) or encrypt.is_wanted(seen))
    return {
        Concern.ADOPTION: (lambda: adopted(seen, images), lambda: let_go(seen)),
        Concern.FOUNDING: (lambda: unsigned(seen),),
        Concern.IDENTITY: (lambda: one_cluster(seen),),
        Concern.STAFF: (lambda: staffed(seen),),
        Concern.ROLLBACK: (lambda: failed_roll(seen, images, trust) if wanted or ledger_of(seen).failed else None,),
        Concern.REVIVAL: (lambda: _revived(seen, images, trust) if wanted else None,),
        Concern.QUORUM: (lambda: without_majority(seen, forcible=False), lambda: no_strangers(seen)),
        Concern.CORRUPTION: (lambda: corrupted(seen, seen.pods),),
        Concern.SPACE: (lambda: space(seen),),
        Concern.REPAIR: (lambda: stays(seen), lambda: irreparable(seen, seen.pods)),
        Concern.LEAVING: (lambda: removed(seen),),
        Concern.JOINING: (lambda: settled(seen),),
        Concern.TIDYING: (lambda: tidied(seen),),
        Concern.VOLUMES: (lambda: grown(seen),),
        Concern.ROLL: (
            lambda: owned_by_others(seen) if wanted else None,
            lambda: encrypt.begun(seen, images, trust),
            lambda: filed(seen) if wanted else None,
            lambda: rolled(seen, images, trust) if wanted else None,
            lambda: _needs_a_roll(seen),
        ),
        Concern.HEALTH: (lambda: all_well(seen), lambda: arrived(seen, images)),
    }


def _revived(seen: Seen, images: Images, trust: str) -> Decision | None:
    """As for a roll: not while the template is somebody else's, and with the files in place."""
    decision = revived(seen, images, trust)
    return decision and (owned_by_others(seen) or filed(seen) or decision)


def at_rest(seen: Seen) -> Decision:
    count = len(seen.voters)
    words = f"{count_noun(count, 'member')} of etcd {seen.oldest_version} in step, {seen.leader} leads"
    return Decision(State.OK, "Healthy", words, (), SETTLED_SECONDS)


def _set_is_there(seen: Seen) -> Decision | None:
    """One that was taken over is not made anew: what it was like is not ours to say."""
    if names.layout(seen.app) is None or seen.stateful_set is not None:
        return None
    return blocked("SetGone", f"the StatefulSet {kit_names.stateful_set(seen.app)} is gone; apply it again")


def _needs_a_roll(seen: Seen) -> Decision | None:
    if seen.replicas >= seen.app.members:
        return None
    return blocked(
        "NeedsRoll",
        f"scale to {seen.app.members} waits: members were set up by others, and one that joins needs what the first "
        f"roll brings: `fleet roll {seen.app.name}`",
    )
