"""Members that have the image that they should have, and do not run the version that git says: the image decides. Pure.

Nobody can roll out of that, so a person is told which image to name.
"""

from __future__ import annotations

from typing import TypeVar

from fleet.kit.driver import Hop
from fleet.kit.observe.answers import Answers, image_in
from fleet.kit.observe.observation import Observation
from fleet.kit.step import Decision, blocked
from fleet.model.app import App
from fleet.model.types import release

A = TypeVar("A", bound=App)


def refuse_other_version(observation: Observation[A], answers: Answers[A]) -> Decision | None:
    """Say that members run another version than git says, where no roll is left to bring it; None if they do not."""
    app, app_type = observation.app, answers.app_type
    wanted, hop = app_type.version(app), answers.next_hop(observation)
    if isinstance(hop, Hop):
        present = app_type.image(app.model_copy(update={"version": hop.target}), answers.images)
        needed = f"; {hop.note} first" if hop.note else ""
        return blocked("NoWay", f"image {present} gives {observation.oldest_version}, and git says {wanted}{needed}")
    return None if app_type.versions.is_series(wanted) else _refuse_other_patch(observation, answers, wanted)


def _refuse_other_patch(observation: Observation[A], answers: Answers[A], wanted: str) -> Decision | None:
    """Say that a version that git says exactly is not what every member says of itself."""
    others = {
        pod: state.version
        for pod, state in observation.states.items()
        if state.version and release(state.version) != release(wanted)
    }
    if not others:
        return None
    images = ", ".join(sorted({image_in(observation, observation.world.pod(pod) or {}) for pod in others}))
    versions = ", ".join(sorted(set(others.values())))
    advice = _advise(observation.app, answers, wanted)
    return blocked("OtherVersion", f"image {images} gives {versions}, and git says {wanted}; {advice}")


def _advise(app: A, answers: Answers[A], wanted: str) -> str:
    template = answers.app_type.image_template(answers.images)
    if getattr(app, "image", None):
        return "name another one with `image`"
    if "{version}" in template or "{tag}" in template:
        return "its name does not say what is in it: name another one with `image`"
    series = answers.app_type.versions.series_of(wanted)
    return (
        f"the operator has one image for all of {series} ({template}): name one of this version with `image`, or "
        "install the operator with `--engine-image` that has {version} in it"
    )
