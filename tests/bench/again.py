"""A process that goes on, as a service does: looks again at what did not change, and says the CPU time that it took.

    KUBECONFIG=… python -m tests.bench.again        in a repository that is synced

The first pass loads modules, evaluates and connects; the second is measured: same commit, so nothing is evaluated.
"""

from __future__ import annotations

import asyncio
import time

from fleet.cli.process import collect_less
from fleet.evaluate import Evaluation, evaluate
from fleet.plan.ownership import RepositoryOwnership
from fleet.sync.options import SyncOptions
from fleet.sync.progress import LineProgress
from fleet.sync.run import sync_fleet
from fleet.sync.source import Commit, read_commit
from fleet.sync.targets import choose_targets


def main() -> None:
    collect_less()
    with read_commit() as files:
        evaluation = evaluate(files.repository).check()
    look(files, evaluation)
    begin = time.process_time()
    look(files, evaluation)
    print(time.process_time() - begin)


def look(files: Commit, evaluation: Evaluation) -> None:
    options = SyncOptions(wait=False, claim=RepositoryOwnership(files.identity))
    progress = LineProgress(prints_phases=False)
    work = sync_fleet(choose_targets(evaluation, (), ()), options, progress, revision=files.revision)
    (result,) = asyncio.run(work).results
    assert result.words == "no changes", result


if __name__ == "__main__":
    main()
