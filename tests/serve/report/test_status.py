"""Health into git by one who has newer words while older ones are still on their way."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from fleet.git.repository import Mirror
from fleet.git.status_records import StatusReport
from fleet.repository import Repository as Settings
from fleet.serve.report.status import StatusWriter
from fleet.sync.source import NO_FILES, Commit
from tests.git.repositories import bare, git

SLOW_AT_FIRST = """#!/bin/sh
[ -e began ] && exit 0
touch began
until [ -e go ]; do sleep 0.05; done
"""


def test_the_newest_word_is_the_one_that_stays_though_an_older_one_is_being_written(tmp_path: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(SLOW_AT_FIRST)
    hook.chmod(0o755)
    mirror = Mirror.of(remote.as_uri(), tmp_path / "cache", by_person=True)
    files = Commit(Settings(NO_FILES), mirror.repository, "", "", remotes={"origin": remote.as_uri()})

    def word(health: str) -> StatusReport:
        return StatusReport("orders", "eu", "a" * 40, health=health)

    async def run() -> None:
        telling = StatusWriter()
        telling.tell(files, word("Degraded"))
        older = asyncio.create_task(telling.flush())
        while not (remote / "began").exists():  # noqa: ASYNC110 - a file is no event
            await asyncio.sleep(0.02)
        telling.tell(files, word("Healthy"))
        newer = asyncio.create_task(telling.flush())
        await asyncio.wait([newer], timeout=1.5)
        (remote / "go").touch()
        assert await older
        assert await newer
        assert telling.pending == 0

    asyncio.run(run())
    said = json.loads(git(remote, "show", "fleet/status:clusters/eu/orders.json"))
    assert said["health"] == "Healthy"
