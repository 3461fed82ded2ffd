"""`fleet approve STACK WAVE`: a person's word that a wave of a rollout may begin, written into git."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fleet.evaluate.result import StackResult


def checked(words: Sequence[str]) -> tuple[str, int]:
    """STACK and WAVE, as they were typed."""
    if len(words) != 2 or not words[1].isdigit() or int(words[1]) < 1:
        raise click.UsageError("say a stack and the number of a wave, as in: fleet approve orders 2")
    return words[0], int(words[1])


def approve_wave(stack: str, wave: int, revision: str) -> int:
    """Write the word for a wave, as the stack is at a commit."""
    from datetime import UTC, datetime

    from fleet.git.reporting import chosen
    from fleet.git.status import timestamp
    from fleet.kube.process import name
    from fleet.sync.approvals import Approval, digest
    from fleet.sync.approvals import approve as write
    from fleet.sync.evaluated import evaluated
    from fleet.sync.source import commit

    with commit(revision, known=True) as files:
        (found,) = evaluated(files, [stack]).stacks
        _check(found, wave)
        assert files.git is not None  # noqa: S101 - a commit is of one
        remote = chosen(files.remotes, files.repository.settings.git.remote)
        by, at = name().partition(" ")[0], timestamp(datetime.now(UTC))
        given = Approval(stack, digest(found), wave, by, at, files.revision)
        new = write(files.git, remote, given)
    clusters = ", ".join(found.rollout.waves[wave - 1])
    said = "may begin" if new else "was approved before"
    click.echo(f"wave {wave} of {stack} ({clusters}) {said}, as {files.title} has it")
    return 0


def _check(found: StackResult, wave: int) -> None:
    from fleet.errors import ConfigurationError, NotFoundError

    waves = found.rollout.waves
    if wave > len(waves):
        raise NotFoundError(f"stack {found.name} has no wave {wave}", hint=f"it has {len(waves)}", source=found.source)
    if wave not in found.rollout.approve:
        raise ConfigurationError(
            f"wave {wave} of {found.name} waits for nobody's word",
            hint=f"ask for it with fleet.Rollout(approve=[{wave}], …)",
            source=found.source,
        )
