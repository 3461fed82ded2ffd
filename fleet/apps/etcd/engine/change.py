"""Another configuration or version: which one is next, and how it goes through the members or is given up. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from fleet.apps.etcd import names
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.faults import is_settling, spoiled
from fleet.apps.etcd.engine.notes import noted
from fleet.apps.etcd.engine.seen import BEHIND, Seen, ledger_of, set_of
from fleet.apps.etcd.kept import template as kept_template
from fleet.apps.etcd.spec import Etcd
from fleet.kit import revive, roll
from fleet.kit.driver import Hop, Refusal
from fleet.kit.pods import pod_template
from fleet.kit.roll import Rolling
from fleet.kit.step import Act, Decision, State, blocked, step
from fleet.kit.template import mark_of
from fleet.kit.world import Object, container, template_of
from fleet.model.app import ROLL
from fleet.model.types import release
from fleet.text import count_noun

Images = Mapping[str, str]
READ_BYTES = 8 << 20  # of a database that a member on a slow disk reads in a second when it starts
MOST_READING = 3600.0  # seconds
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


def rolled(seen: Seen, images: Images, trust: str) -> Decision | None:
    """Configuration and version, one member at a time."""
    current, ledger = rolling(seen, images, trust), ledger_of(seen)
    if isinstance(current, Refusal):
        return blocked("NoWay", f"{current.reason}" + (f" ({current.hint})" if current.hint else ""))
    if current.mark == ledger.failed:
        return blocked("RollFailed", f"{ledger.failure}. It is not tried again until the app is changed in git")
    if ledger.failed and template_of(current.found) == current.mark and not current.old():
        return step(State.PROGRESSING, "Rolled", "", noted(seen, replace(ledger, failed="", failure="")))
    hop = next_hop(seen)
    if isinstance(hop, Hop) and hop.kind == "downgrade" and template_of(current.found) != current.mark:
        allow = Act("downgrade", {"version": ".".join(hop.target.split(".")[:2])})
        decision = roll.advance(current)
        return replace(decision, steps=(allow, *decision.steps)) if decision and decision.steps else decision
    return roll.advance(current)


def failed_roll(seen: Seen, images: Images, trust: str) -> Decision | None:
    """A template with which a member does not come back is given up: it is noted, then taken back."""
    ledger, current = ledger_of(seen), rolling(seen, images, trust)
    if isinstance(current, Refusal):
        return None
    if ledger.failed and (decision := roll.take_back(current, ledger.failed)) is not None:
        return decision
    reason = roll.broken(current)
    if reason is None or any(spoiled(seen, pod) for pod in seen.pods):
        return None
    failed = replace(ledger, failed=template_of(current.found), failure=f"{current.what}: {reason}")
    note = f"{current.what} is given up: {reason}"
    return step(State.DEGRADED, "RollFailed", note, noted(seen, failed, "RollFailed", note))


def revived(seen: Seen, images: Images, trust: str) -> Decision | None:
    """Members that cannot start get what git says by now, before anything waits for them or calls them lost."""
    current, hop = rolling(seen, images, trust), next_hop(seen)
    backwards = isinstance(hop, Hop) and hop.kind == "downgrade"
    if isinstance(current, Refusal) or backwards or current.mark == ledger_of(seen).failed:
        return None
    return revive.revived(current, [pod for pod in seen.pods if _is_down(seen, pod) and _may_start(seen, pod, current)])


def _is_down(seen: Seen, pod: str) -> bool:
    """For certain, and not because of its data, which no template mends."""
    return (
        pod not in seen.statuses and revive.is_down(seen.world.pod(pod), seen.container) and spoiled(seen, pod) is None
    )


def _may_start(seen: Seen, pod: str, current: Rolling) -> bool:
    """Whether its data is known to be of a version that the wanted image can go on from."""
    had, gets = image_in(seen, seen.world.pod(pod) or {}), image_in(seen, current.wanted)
    versions = [_VERSION.search(one.rpartition(":")[2]) for one in (had, gets)]
    if had == gets:
        return True
    if versions[0] is None or versions[1] is None:
        return bool(seen.statuses) and next_hop(seen) is None
    before, after = (release(one[0]).series for one in versions if one)
    furthest = 1 if seen.statuses else 0  # without anybody to ask, no step to another series is taken
    return before[0] == after[0] and 0 <= after[1] - before[1] <= furthest


def rolling(seen: Seen, images: Images, trust: str) -> Rolling | Refusal:
    wanted = wanted_template(seen, images, trust)
    if isinstance(wanted, Refusal):
        return wanted
    made, what = wanted
    return Rolling(
        world=seen.world,
        found=set_of(seen),
        pods=seen.pods,
        container=seen.container,
        wanted=made,
        mark=mark_of(made),
        what=what,
        healthy=seen.healthy,
        leader=seen.leader,
        can_stop=seen.can_lose,
        patience=lambda pod: patience_for(seen, pod),
        settling=lambda pod: is_settling(seen, pod),
    )


def patience_for(seen: Seen, pod: str) -> float:
    """Seconds that a member has after its restart. To begin anew would cost it all that it has recovered so far, so one
    that is in touch with its leader and only behind has any time, and one that is silent as long as its data takes."""
    status = seen.statuses.get(pod)
    if status is not None and status.leader and seen.lag(pod) >= BEHIND:
        return math.inf
    if "running" not in container(seen.world.pod(pod) or {}, seen.container).get("state", {}):
        return roll.PATIENCE
    size = max((one.db_size for one in seen.statuses.values()), default=0)
    return roll.PATIENCE + min(size / READ_BYTES, MOST_READING)


def wanted_template(seen: Seen, images: Images, trust: str) -> tuple[Object, str] | Refusal:
    """The template that members should have now, and what giving it to them is called."""
    hop = next_hop(seen)
    if isinstance(hop, Refusal):
        return hop
    app: Etcd = seen.app if hop is None else seen.app.model_copy(update={"version": hop.target})
    mixed = len({status.version for status in seen.statuses.values()}) > 1
    what = f"upgrade to {app.version}" if mixed else "new configuration"
    if (kept := names.layout(app)) is not None and not mixed:
        what = {"opening": "TLS beside what is plain", "closing": "TLS alone"}.get(kept.secured, what)
    if hop is not None:
        what = f"{'downgrade' if hop.kind == 'downgrade' else 'upgrade'} {hop}"
    had = chosen_image(seen, app, images)
    if kept is not None:
        return kept_template(app, kept, set_of(seen)["spec"]["template"], had, trust), what
    return pod_template(DRIVER, app, had, trust), what


def chosen_image(seen: Seen, app: Etcd, images: Images) -> str:
    """Another patch of the same series only with a restart that was asked for, by `fleet roll`."""
    found = seen.stateful_set
    templates = [found["spec"]["template"]] if found else [one for pod in seen.places if (one := seen.world.pod(pod))]
    if not templates or (templates[0].get("metadata", {}).get("annotations") or {}).get(ROLL, "") != app.roll:
        return DRIVER.image(app, images)
    return DRIVER.image(app, images, image_in(seen, templates[0]))


def image_in(seen: Seen, pod: Object) -> str:
    """etcd's, in a pod or its template."""
    containers = pod.get("spec", {}).get("containers", ())
    return next((str(one["image"]) for one in containers if one["name"] == seen.container), "")


def images_of(seen: Seen) -> set[str]:
    """Return the images that members have: by their StatefulSet, or by their pods where it is gone."""
    found = seen.stateful_set
    templates = [found["spec"]["template"]] if found else [one for pod in seen.places if (one := seen.world.pod(pod))]
    return {image_in(seen, one) for one in templates}


def next_hop(seen: Seen) -> Hop | Refusal | None:
    """The next release on the way to the wanted one; None when the members run that series."""
    running, wanted = seen.oldest_version, seen.app.version
    if running is None or release(running).series == release(wanted).series:
        return None
    path = DRIVER.path(running, wanted)
    if isinstance(path, Refusal):
        return path
    if len(path) > 1 and seen.app.image:
        return Refusal(
            f"from {running} to {wanted} it takes {count_noun(len(path), 'step')}, and `image` names only one",
            f"go to {path[0].target} first",
        )
    return path[0] if path else None


def stays(seen: Seen) -> Decision | None:
    """A downgrade that git does not want any more is taken back: with it allowed, etcd keeps to the older format."""
    targets = {status.downgrading_to for status in seen.statuses.values() if status.downgrading_to}
    if not any(release(target).series < release(seen.app.version).series for target in targets):
        return None
    note = f"the downgrade to {', '.join(sorted(targets))} is taken back: git says {seen.app.version}"
    return step(State.PROGRESSING, "Staying", note, Act("no-downgrade", {}, "DowngradeCancelled", note))


def arrived(seen: Seen, images: Images) -> Decision | None:
    """All members have the image that they should have, and do not run what git says: the image decides."""
    hop = next_hop(seen)
    if isinstance(hop, Hop):
        had = DRIVER.image(seen.app.model_copy(update={"version": hop.target}), images)
        needed = f"; {hop.note} first" if hop.note else ""
        return blocked("NoWay", f"image {had} gives {seen.oldest_version}, and git says {seen.app.version}{needed}")
    return _another_patch(seen, images)


def _another_patch(seen: Seen, images: Images) -> Decision | None:
    """A version that git says exactly is what every member says of itself, or it is not done."""
    wanted = release(seen.app.version)
    others = [pod for pod, status in seen.statuses.items() if release(status.version) != wanted]
    if wanted.patch is None or not others:
        return None
    given = ", ".join(sorted({image_in(seen, seen.world.pod(pod) or {}) for pod in others}))
    runs = ", ".join(sorted({seen.statuses[pod].version for pod in others}))
    if seen.app.image:
        advice = "name another one with `image`"
    elif "{version}" in (template := DRIVER.image_template(images)) or "{tag}" in template:
        advice = "its name does not say what is in it: name another one with `image`"
    else:
        advice = (
            f"the operator has one image for all of {wanted.major}.{wanted.minor} ({template}): name "
            "one of this version with `image`, or install the operator with `--engine-image` that has {version} in it"
        )
    return blocked("OtherVersion", f"image {given} gives {runs}, and git says {seen.app.version}; {advice}")
