"""The tasks of workers: load user files, find clusters or stacks, run each stack for its clusters, render.

Only a zygote imports this module. The results are plain data, which the parent reads with `answer.py`.
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
    """Return all clusters that the files declare, and a problem for each file that cannot be loaded."""
    root = Path(job.root)
    clusters: list[ClusterData] = []
    problems = []
    with relative_to(root):
        for file in job.files:
            note(file, 1)
            try:
                with open_discovery() as discovery:
                    load.load(root, file)
            except MemoryError:
                raise
            except Exception as error:
                problems.append(explain(error, root, job, (file, 1)))
                continue
            clusters += [_convert_cluster(cluster) for cluster in discovery.clusters]
    return {"clusters": clusters, "problems": problems}


def run_stacks(job: Job, note: Note) -> dict[str, Any]:
    """Return the stacks of one file, each for all its clusters: done, waiting for an export, or with a problem."""
    root = Path(job.root)
    (file,) = job.files
    clusters = [_make_cluster(data) for data in job.clusters]
    done: list[StackResult] = []
    waiting, problems = [], []
    with relative_to(root):
        note(file, 1)
        with open_discovery() as discovery:
            load.load(root, file)
        own_stacks = [stack for stack in discovery.stacks if stack.source.file == file]  # not those of a sibling
        for stack in own_stacks:
            if job.only is not None and stack.name not in job.only:
                continue
            note(file, stack.source.line)
            try:
                done.append(_evaluate_stack(stack, clusters, job.exports))
            except MemoryError:
                raise
            except Exception as error:
                problem = explain(error, root, job, (file, stack.source.line))
                if isinstance(error, MissingOutputError) and error.asked.stack not in job.exports:
                    waiting.append({"stack": stack.name, "wants": error.asked.stack, "problem": problem})
                else:
                    problems.append(problem)
    declared = [{"name": stack.name, "source": stack.source} for stack in own_stacks]
    return {"declared": declared, "stacks": done, "waiting": waiting, "problems": problems}


def _evaluate_stack(
    stack: Stack, clusters: list[Cluster], exports: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> StackResult:
    """Return the result of a stack for all its clusters; raise MissingOutputError where it must wait for an export."""
    own_clusters = stack.clusters(clusters)
    waves = stack.rollout.order(own_clusters, source=stack.source)
    desired, needs = [], set(stack.depends_on)
    for cluster in own_clusters:
        outputs = {name: by_cluster[cluster.name] for name, by_cluster in exports.items() if cluster.name in by_cluster}
        try:
            collected = collect(stack, cluster, outputs=outputs)
            desired.append(render(collected, cluster))
        except MissingOutputError as error:
            raise _explain_missing_output(error, cluster, exports) from None
        except Exception as error:
            error.add_note(f"while stack {stack.name!r} was evaluated for cluster {cluster.name!r}")
            raise
        needs.update(asked.stack for asked in collected.asked)
    return StackResult(
        name=stack.name,
        source=stack.source,
        clusters=tuple(cluster.name for cluster in own_clusters),
        rollout=_convert_rollout(stack.rollout, waves),
        desired=tuple(desired),
        needs=tuple(sorted(needs)),
        drift=stack.drift,
    )


def _convert_rollout(rollout: Rollout, waves: tuple[tuple[str, ...], ...]) -> RolloutData:
    return RolloutData(
        waves,
        str(rollout.soak),
        str(rollout.timeout),
        rollout.max_unavailable,
        tuple(rollout.approve),
        tuple(rollout.windows),
        rollout.timezone,
        rollout.freeze,
        rollout.on_failure,
        str(rollout.rollback_after),
        rest=bool(rollout.waves) and len(waves) > len(rollout.waves),
    )


def _explain_missing_output(
    error: MissingOutputError, cluster: Cluster, exports: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> ConfigurationError:
    """Return the same error, or another one if the other stack was evaluated and is not on this cluster."""
    by_cluster = exports.get(error.asked.stack)
    if by_cluster is None or cluster.name in by_cluster:
        return error
    return ConfigurationError(
        f"stack {error.asked.stack!r} is not on cluster {cluster.name!r}, so it exports nothing there",
        hint=f"it is on: {', '.join(sorted(by_cluster))}",
        source=error.source,
        field="output",
    )


def _convert_cluster(cluster: Cluster) -> ClusterData:
    return ClusterData(
        cluster.name, dict(cluster.labels), cluster.context, cluster.secret, cluster.pull, cluster.source
    )


def _make_cluster(data: dict[str, Any]) -> Cluster:
    fields = {name: data[name] for name in ("labels", "context", "secret", "pull")}
    cluster = Cluster(data["name"], **fields)
    cluster.__dict__["_source"] = Source(**data["source"])
    return cluster
