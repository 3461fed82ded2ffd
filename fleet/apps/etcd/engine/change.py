"""What etcd has to say about versions: a downgrade that is taken back, and members that run another one than git says.
Pure."""

from __future__ import annotations

from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.observe import EtcdObservation, statuses_of
from fleet.apps.etcd.spec import Etcd
from fleet.kit.driver import Hop
from fleet.kit.observe.answers import Answers, image_in
from fleet.kit.step import Act, Decision, State, blocked, step
from fleet.model.types import release


def take_back_downgrade(observation: EtcdObservation) -> Decision | None:
    """Take back a downgrade that git does not want any more: with it allowed, etcd keeps to the older format."""
    targets = {status.downgrading_to for status in statuses_of(observation).values() if status.downgrading_to}
    if not any(release(target).series < release(observation.app.version).series for target in targets):
        return None
    note = f"the downgrade to {', '.join(sorted(targets))} is taken back: git says {observation.app.version}"
    return step(State.PROGRESSING, "Staying", note, Act("no-downgrade", {}, "DowngradeCancelled", note))


def refuse_other_version(observation: EtcdObservation, answers: Answers[Etcd]) -> Decision | None:
    """Say that all members have the image that they should have, and do not run what git says: the image decides."""
    hop = answers.next_hop(observation)
    if isinstance(hop, Hop):
        had = DRIVER.image(observation.app.model_copy(update={"version": hop.target}), answers.images)
        needed = f"; {hop.note} first" if hop.note else ""
        return blocked(
            "NoWay", f"image {had} gives {observation.oldest_version}, and git says {observation.app.version}{needed}"
        )
    return _refuse_other_patch(observation, answers)


def _refuse_other_patch(observation: EtcdObservation, answers: Answers[Etcd]) -> Decision | None:
    """A version that git says exactly is what every member says of itself, or it is not done."""
    wanted = release(observation.app.version)
    others = [pod for pod, status in statuses_of(observation).items() if release(status.version) != wanted]
    if wanted.patch is None or not others:
        return None
    given = ", ".join(sorted({image_in(observation, observation.world.pod(pod) or {}) for pod in others}))
    runs = ", ".join(sorted({statuses_of(observation)[pod].version for pod in others}))
    template = DRIVER.image_template(answers.images)
    if observation.app.image:
        advice = "name another one with `image`"
    elif "{version}" in template or "{tag}" in template:
        advice = "its name does not say what is in it: name another one with `image`"
    else:
        advice = (
            f"the operator has one image for all of {wanted.major}.{wanted.minor} ({template}): name one of this "
            "version with `image`, or install the operator with `--engine-image` that has {version} in it"
        )
    return blocked("OtherVersion", f"image {given} gives {runs}, and git says {observation.app.version}; {advice}")
