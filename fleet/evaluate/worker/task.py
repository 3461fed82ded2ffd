"""What workers do with user code: load files, find clusters or stacks, run each stack for its clusters, render.

Only ever imported by a zygote. What is returned is plain data; `answer.py` is the reader on the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fleet.errors import ConfigurationError, Source
from fleet.evaluate.explain import explain
from fleet.evaluate.protocol import Job
from fleet.evaluate.result import ClusterData, RolloutData, StackResult
from fleet.evaluate.worker import load
from fleet.model.cluster import Cluster
from fleet.model.context import MissingOutputError, open_discovery
from fleet.model.placement import Rollout
from fleet.model.source import relative_to
from fleet.model.stack import Stack, collect
from fleet.render import render

Note = Callable[[str, int], None]


def find_clusters(job: Job, note: Note) -> dict[str, Any]:
    """All clusters that the files declare, or what is wrong with each file."""
    root = Path(job.root)
    found_clusters: list[ClusterData] = []
    problems = []
    with relative_to(root):
        for file in job.files:
            note(file, 1)
            try:
                with open_discovery() as found:
                    load.load(root, file)
            except MemoryError:
                raise
            except Exception as error:
                problems.append(explain(error, root, job, (file, 1)))
                continue
            found_clusters += [_data(cluster) for cluster in found.clusters]
    return {"clusters": found_clusters, "problems": problems}


def run_stacks(job: Job, note: Note) -> dict[str, Any]:
    """The stacks of one file, each for all its clusters: done, waiting for another's export, or a problem."""
    root = Path(job.root)
    (file,) = job.files
    known = [_cluster(data) for data in job.clusters]
    done: list[StackResult] = []
    waiting, problems = [], []
    with relative_to(root):
        note(file, 1)
        with open_discovery() as found:
            load.load(root, file)
        mine = [stack for stack in found.stacks if stack.source.file == file]  # not those it imported from a sibling
        for stack in mine:
            if job.only is not None and stack.name not in job.only:
                continue
            note(file, stack.source.line)
            try:
                done.append(_evaluated(stack, known, job.exports))
            except MemoryError:
                raise
            except Exception as error:
                problem = explain(error, root, job, (file, stack.source.line))
                if isinstance(error, MissingOutputError) and error.asked.stack not in job.exports:
                    waiting.append({"stack": stack.name, "wants": error.asked.stack, "problem": problem})
                else:
                    problems.append(problem)
    declared = [{"name": stack.name, "source": stack.source} for stack in mine]
    return {"declared": declared, "stacks": done, "waiting": waiting, "problems": problems}


def _evaluated(
    stack: Stack, known: list[Cluster], exports: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> StackResult:
    placed = stack.clusters(known)
    waves = stack.rollout.order(placed, source=stack.source)
    desired, needs = [], set(stack.depends_on)
    for cluster in placed:
        outputs = {name: by_cluster[cluster.name] for name, by_cluster in exports.items() if cluster.name in by_cluster}
        try:
            collected = collect(stack, cluster, outputs=outputs)
            desired.append(render(collected, cluster))
        except MissingOutputError as error:
            raise _not_there(error, cluster, exports) from None
        except Exception as error:
            error.add_note(f"while stack {stack.name!r} was evaluated for cluster {cluster.name!r}")
            raise
        needs.update(asked.stack for asked in collected.asked)
    return StackResult(
        name=stack.name,
        source=stack.source,
        clusters=tuple(cluster.name for cluster in placed),
        rollout=_rollout(stack.rollout, waves),
        desired=tuple(desired),
        needs=tuple(sorted(needs)),
        drift=stack.drift,
    )


def _rollout(one: Rollout, waves: tuple[tuple[str, ...], ...]) -> RolloutData:
    return RolloutData(
        waves,
        str(one.soak),
        str(one.timeout),
        one.max_unavailable,
        tuple(one.approve),
        tuple(one.windows),
        one.timezone,
        one.freeze,
        one.on_failure,
        str(one.rollback_after),
        rest=bool(one.waves) and len(waves) > len(one.waves),
    )


def _not_there(
    error: MissingOutputError, cluster: Cluster, exports: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> ConfigurationError:
    """The same error, unless the other stack is known and simply not on this cluster."""
    by_cluster = exports.get(error.asked.stack)
    if by_cluster is None or cluster.name in by_cluster:
        return error
    return ConfigurationError(
        f"stack {error.asked.stack!r} is not on cluster {cluster.name!r}, so it exports nothing there",
        hint=f"it is on: {', '.join(sorted(by_cluster))}",
        source=error.source,
        field="output",
    )


def _data(cluster: Cluster) -> ClusterData:
    return ClusterData(
        cluster.name, dict(cluster.labels), cluster.context, cluster.secret, cluster.pull, cluster.source
    )


def _cluster(data: dict[str, Any]) -> Cluster:
    fields = {name: data[name] for name in ("labels", "context", "secret", "pull")}
    cluster = Cluster(data["name"], **fields)
    cluster.__dict__["_source"] = Source(**data["source"])
    return cluster
