"""What is taken as a schedule, an API server takes for a CronJob: it is asked, and is the one that knows."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from fleet import Backup, Claim
from fleet.apps import Etcd
from fleet.errors import ConfigurationError
from fleet.kube.client.client import Client
from fleet.model.app import API_VERSION
from fleet.model.types import Cron
from fleet.testing import Cluster
from tests.kube.with_client import connected

CHOSEN = (
    *("0 3 * * *", "*/15 0-6,22 1 jan-mar mon", "5/10 * ? * 6", "@daily", "@annually", "0 0 29 2 *", "0 0 31 2 fri"),
    *("0 3 * * 7", "0 3 * * 5-7", "0 3 * * 0-7", "0 3 * * sun", "0 3 * * SUN-SAT", "0 3 * * sat-sun", "0 24 * * *"),
    *("60 * * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "*/0 * * * *", "5-1 * * * *", "-1 * * * *"),
    *(
        "@every 1h",
        "@reboot",
        "@Daily",
        "@daily ",
        " @daily",
        "TZ=UTC 0 3 * * *",
        "CRON_TZ=UTC 0 3 * * *",
        "0 3 * * * *",
    ),
    *(
        "0\t3 * * *",
        "0  3 * * *",
        " 0 3 * * * ",
        "0\n3 * * *",
        "0\x1c3 * * *",
        "0\xa03 * * *",
        "007 3 * * *",
        "+5 3 * * *",
    ),
    *("*/٣ * * * *", "٣ 3 * * *", "*/99999999999999999999 * * * *", "*/9999 * * * *", "99999999999999999999 * * * *"),
    *("1,2,,3 * * * *", ", * * * *", "1-2-3 * * * *", "1/2/3 * * * *", "*-5 * * * *", "?/5 * * * *", "* * L * *"),
    *("* * 15W * *", "* * * * 5#2", "jan * * * *", "* * * mon *", "* * * jan/2 *", "* * * Dec-dec *", "0x5 * * * *"),
    "0 3 * * " + ",".join(["0"] * 100),
)


def drawn(seed: int) -> list[str]:
    """Schedules that are nearly right."""
    chance = random.Random(seed)
    words = [
        "*",
        "?",
        "0",
        "1",
        "5",
        "6",
        "7",
        "12",
        "13",
        "23",
        "24",
        "31",
        "32",
        "59",
        "60",
        "mon",
        "SUN",
        "dec",
        "x",
    ]

    def item() -> str:
        text = chance.choice(words)
        if chance.random() < 0.25:
            text += f"-{chance.choice(words)}"
        if chance.random() < 0.25:
            text += f"/{chance.choice(['1', '2', '7', '0', '100', 'x'])}"
        return text

    def field() -> str:
        return "*" if chance.random() < 0.5 else ",".join(item() for _ in range(chance.choice([1, 1, 1, 2])))

    return [" ".join(field() for _ in range(5)) for _ in range(150)]


def is_ours(text: str) -> bool:
    try:
        TypeAdapter(Cron).validate_python(text)
    except ValidationError:
        return False
    return True


def cron_job(cluster: Cluster, text: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    job = {"template": {"spec": pod}}
    spec = {"schedule": text, "timeZone": "Etc/UTC", "jobTemplate": {"spec": job}}
    metadata = {"name": "oracle", "namespace": cluster.namespace}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}


def test_what_is_taken_as_a_schedule_the_api_server_takes_too(cluster: Cluster) -> None:
    every = [*CHOSEN, *drawn(8)]

    async def taken(client: Client) -> dict[str, bool]:
        path = f"/apis/batch/v1/namespaces/{cluster.namespace}/cronjobs?dryRun=All"

        async def one(text: str) -> bool:
            answer = await client.request("POST", path, body=cron_job(cluster, text), expect=(422,))
            return answer.status == 201

        return dict(zip(every, await asyncio.gather(*map(one, every)), strict=True))

    theirs = connected(cluster, taken)
    ours = {text for text in every if is_ours(text)}
    assert [text for text in every if text in ours and not theirs[text]] == []
    assert 20 < len(ours) < len(every) - 20, "both answers are given"
    refused = {text for text in every if theirs[text]} - ours
    assert all(_is_odd(text) for text in refused), sorted(refused)


def _is_odd(text: str) -> bool:
    """Kubernetes takes it, and we do not: it never comes, or is not what it looks like."""
    parts = text.split()
    return (
        text.strip() != text
        or text.startswith("@every")
        or any(mark in text for mark in ("\n", "\xa0", "+", ",,", ", "))
        or any(part.startswith(("*-", "?-")) or ",*-" in part or ",?-" in part for part in parts)
        or len(text) > 128
        or (len(parts) == 5 and parts[4] in ("*", "?"))
    )


def test_a_schedule_that_kubernetes_does_not_take_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigurationError, match="'7' is no day of the week") as refused:
        Backup(schedule="0 3 * * 7", to=Claim("backups"))
    assert (refused.value.field, refused.value.hint) == (
        "schedule",
        "for the day of the week: 0 to 6, or '*', or sun to sat",
    )
    assert refused.value.source is not None and refused.value.source.file.endswith("test_cron.py")


def test_an_app_that_has_such_a_schedule_already_is_looked_after_all_the_same() -> None:
    backup = {"schedule": "0 3 * * 7", "to": {"claim": {"claim": "backups"}}}
    manifest = {"apiVersion": API_VERSION, "kind": "Etcd", "metadata": {"name": "db", "namespace": "shop"}}
    found = Etcd.from_manifest({**manifest, "spec": {"version": "3.5", "backup": backup}})
    assert found.backup is not None and found.backup.schedule == "0 3 * * 7"
