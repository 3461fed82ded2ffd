"""A backup at once: the Job that an app's CronJob would make when its time has come. Pure."""

from __future__ import annotations

import copy
import datetime
from typing import Any


def backup_job(cron_job: dict[str, Any], now: datetime.datetime) -> dict[str, Any]:
    """With the same labels, and the CronJob as its owner, so that it is counted and cleared up with the others."""
    own, template = cron_job["metadata"], copy.deepcopy(cron_job["spec"]["jobTemplate"])
    metadata = template.get("metadata", {})
    made: dict[str, Any] = {
        "name": f"{own['name']}-{now.astimezone(datetime.UTC):%y%m%d%H%M%S}",
        "namespace": own["namespace"],
        "labels": metadata.get("labels", {}),
        "annotations": {**metadata.get("annotations", {}), "cronjob.kubernetes.io/instantiate": "manual"},
    }
    if "uid" in own:
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": own["name"], "uid": own["uid"]}
        made["ownerReferences"] = [{**owner, "controller": True}]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": template["spec"]}
