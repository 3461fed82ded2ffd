"""Jobs, which end, and CronJobs, which make them."""

from __future__ import annotations

from typing import Any

from fleet.kube.health.state import (
    Health,
    condition,
    degraded,
    healthy,
    holds,
    progressing,
    said,
    status_of,
    suspended,
)
from fleet.printable import count_noun


def job(found: dict[str, Any]) -> Health:
    if holds(found, "Failed"):
        return degraded(said(condition(found, "Failed")) or "it failed", final=True)
    if holds(found, "Complete"):
        return healthy("complete")
    if found["spec"].get("suspend") or holds(found, "Suspended"):
        return suspended("it is suspended")
    status = status_of(found)
    active, done = status.get("active", 0), status.get("succeeded", 0)
    return progressing(
        f"{count_noun(active, 'pod')} running, {done} of {found['spec'].get('completions') or 1} complete"
    )


def cron_job(found: dict[str, Any]) -> Health:
    if found["spec"].get("suspend"):
        return suspended("it is suspended")
    status = status_of(found)
    if status.get("active"):
        return healthy("a run is under way")
    last, good = status.get("lastScheduleTime"), status.get("lastSuccessfulTime")
    if last and (not good or good < last):  # both RFC 3339 in UTC, so they compare as text
        return degraded(f"the run of {last} did not succeed")
    return healthy(f"last success {good}" if good else "not run yet")
