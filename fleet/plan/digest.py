"""The hash of a plan: the same steps on the same objects with the same content give the same hash, anywhere, any time.

Live values, UIDs and resource versions are not in it, so a plan that was approved is still that plan when an unrelated
field of a live object has changed meanwhile. The release of fleet is in it: another one may carry the same objects out
in another way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson

from fleet.plan.normal import manifest_digest
from fleet.plan.step import Plan, Verb
from fleet.version import __version__


def plan_hash(plans: Iterable[Plan]) -> str:
    """Of one plan, or of all plans of a run together."""
    content = sorted(
        [
            plan.stack,
            plan.cluster,
            step.verb.value,
            str(step.key),
            manifest_digest(step.manifest) if step.manifest else "",
            # A later delete that was not approved begins with taking these away.
            [step.entry.protect, step.entry.retain, *step.take_from] if step.entry else [],
        ]
        for plan in plans
        for step in plan.steps
        if step.verb is not Verb.UNCHANGED
    )
    return hashlib.sha256(orjson.dumps([__version__, content])).hexdigest()
