"""`fleet lab fault`: faults in a lab, made on purpose, listed and cleared."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from fleet.cli.commands.lab.options import FaultScope, name_option, open_lab
from fleet.cli.lazy import LazyGroup
from fleet.cli.options import Seconds
from fleet.cli.output import emit_result, format_table, output_option, print_message
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.lab.faults import ActiveFault

F = TypeVar("F", bound=Callable[..., Any])
MORE = {  # commands in modules of their own
    "api": (
        "fleet.cli.commands.lab.fault_api:api",
        "Let the API server answer with errors, be slow, forget, skew Leases.",
    ),
}


def _complete_target(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete nodes and programs, known without asking a cluster; pods are asked for once `pod/` is typed."""
    from fleet.errors import FleetError
    from fleet.lab.faults.fault import PROGRAMS

    try:
        lab = open_lab(ctx.params.get("name") or "default")
        cluster = lab.spec.cluster_or_first(ctx.params.get("cluster"))
        namespace = ctx.params.get("namespace") or "default"
        names = [*(f"node/{node.name}" for node in lab.nodes(cluster)), *PROGRAMS, "pod/", "volume/"]
        for kind, plural in (("pod", "pods"), ("volume", "persistentvolumeclaims")):
            if incomplete.startswith(f"{kind}/"):
                items = lab.api(cluster).get(f"/api/v1/namespaces/{namespace}/{plural}")["items"]
                names = [f"{kind}/{item['metadata']['name']}" for item in items]
    except FleetError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def scope_options(command: F) -> F:
    """Add --name, --cluster and --namespace: the command gets them as its first argument, a `FaultScope`."""

    @wraps(command)
    def with_scope(name: str, cluster: str | None, namespace: str, seconds: float | None = None, **rest: Any) -> Any:
        return command(FaultScope(name, cluster, namespace, seconds), **rest)

    wrapped: Any = with_scope
    for option in (
        click.option("-n", "--namespace", default="default", show_default=True, help="Of pods and volumes."),
        click.option("--cluster", help="Cluster. [default: the lab's first]"),
        name_option,
    ):
        wrapped = option(wrapped)
    return cast("F", wrapped)


def fault_options(command: F) -> F:
    """Add the options of `scope_options`, and --for: what every fault that lasts has."""
    option = click.option(
        "--for", "seconds", type=Seconds(), help="Undo it after that time, as 30s or 5m. [default: when it is cleared]"
    )
    return scope_options(option(command))


def target_argument(command: F) -> F:
    """Add TARGET, which a shell completes."""
    return click.argument("target", shell_complete=_complete_target)(command)


def side_options(command: F) -> F:
    """Add the two sides of a network: the targets and --from, and --one-way."""
    for option in (
        click.argument("targets", nargs=-1, required=True, metavar="TARGET…", shell_complete=_complete_target),
        click.option("--one-way", is_flag=True, help="Only packets that leave the first side."),
        click.option(
            "--from",
            "others",
            multiple=True,
            metavar="TARGET",
            shell_complete=_complete_target,
            help="The other side; may be repeated. [default: everybody else]",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=LazyGroup, commands=MORE)
def fault() -> None:
    """Break something in a lab on purpose, and mend it again.

    \b
    TARGET is
      pod/NAME, pod/NAMESPACE/NAME     a pod
      node/NAME                        a real node
      volume/CLAIM                     the volume of a claim
      kube-apiserver, etcd, ...        a program of the control plane
    """


@fault.command()
@fault_options
@click.option("-c", "--container", default="", help="Only this container of the pod. [default: all]")
@click.option("--process", default="", metavar="NAME", help="Only processes of this name. [default: all]")
@target_argument
def kill(scope: FaultScope, container: str, process: str, target: str) -> None:
    """Kill a pod's processes, a node or a program, as by kill -9 or a loss of power.

    A pod is started again by its node. A node or a program is started again when the fault is cleared.
    """
    scope.begin(scope.builder.kill(target, container=container, process=process))


@fault.command()
@fault_options
@click.option("-c", "--container", default="", help="Only this container of the pod. [default: all]")
@click.option("--process", default="", metavar="NAME", help="Only processes of this name. [default: all]")
@target_argument
def freeze(scope: FaultScope, container: str, process: str, target: str) -> None:
    """Let a pod's processes, a node or a program stand still: it holds what it has and answers nothing."""
    scope.begin(scope.builder.freeze(target, container=container, process=process))


@fault.command()
@fault_options
@click.option("--grace", type=Seconds(), default="10s", show_default=True, help="How long its pods have to end.")
@target_argument
def stop(scope: FaultScope, grace: float, target: str) -> None:
    """Shut a node down in good order. It is started again when the fault is cleared."""
    scope.begin(scope.builder.stop(target, grace=grace))


@fault.command()
@fault_options
@side_options
def partition(scope: FaultScope, others: tuple[str, ...], one_way: bool, targets: tuple[str, ...]) -> None:
    """Let no packet through between nodes or pods and others, the API server for instance.

    \b
    fleet lab fault partition node/lab-node-1                        from everybody
    fleet lab fault partition node/lab-node-1 --from node/lab-node-2
    fleet lab fault partition node/lab-node-1 --from kube-apiserver
    """
    scope.begin(scope.builder.partition(targets, others, one_way=one_way))


@fault.command()
@fault_options
@click.option("--delay", type=Seconds(), default="0s", help="Packets come that much later, as 0.1s.")
@click.option("--jitter", type=Seconds(), default="0s", help="Give or take that much; their order stays.")
@click.option("--loss", type=float, default=0, help="The share of packets that is lost, as 0.1.")
@click.option("--reorder", type=float, default=0, help="The share of packets that is overtaken by others.")
@click.option("--hold", type=Seconds(), default="0.02s", show_default=True, help="How long those are held back.")
@click.option("--seed", type=int, default=0, help="Chance that can be had again: which packets it hits.")
@side_options
def disturb(
    scope: FaultScope,
    *,
    delay: float,
    jitter: float,
    loss: float,
    reorder: float,
    hold: float,
    seed: int,
    others: tuple[str, ...],
    one_way: bool,
    targets: tuple[str, ...],
) -> None:
    """Delay, drop and reorder packets between nodes or pods and others. Times and shares are of each direction.

    \b
    fleet lab fault disturb node/lab-node-1 --delay 0.1s --jitter 0.02s
    fleet lab fault disturb pod/web-0 --loss 0.1 --from pod/web-1
    """
    disturbance = scope.builder.disturb(
        targets, others, delay=delay, jitter=jitter, loss=loss, reorder=reorder, hold=hold, seed=seed, one_way=one_way
    )
    scope.begin(disturbance)


@fault.command()
@fault_options
@click.option("--leave", type=int, default=0, metavar="BYTES", help="Leave so much free.")
@target_argument
def fill(scope: FaultScope, leave: int, target: str) -> None:
    """Fill a volume: whoever writes to it is told that no space is left."""
    scope.begin(scope.builder.fill(target, leave=leave))


@fault.command()
@fault_options
@click.option("--file", default="", metavar="PATH", help="A file on the volume. [default: the largest]")
@click.option("--places", default=16, show_default=True, help="How many bytes are changed.")
@click.option("--seed", type=int, default=0, help="Chance that can be had again: which bytes.")
@target_argument
def corrupt(scope: FaultScope, file: str, places: int, seed: int, target: str) -> None:
    """Change bytes of a file on a volume. Clearing puts those back that are still wrong."""
    scope.begin(scope.builder.corrupt(target, file=file, places=places, seed=seed))


@fault.command()
@fault_options
@target_argument
def lose(scope: FaultScope, target: str) -> None:
    """Lose all that is on a volume, or a node with all its disks, for good.

    A volume's pods are killed and find it empty. When a node's fault is cleared, a new one of its name starts; the
    volumes that were on the old one cannot be mounted any more.
    """
    scope.begin(scope.builder.lose(target))


@fault.command("list")
@name_option
@output_option
def list_faults(name: str, form: str) -> None:
    """List the faults that are not undone yet."""
    import time

    from fleet.lab.faults import list_active

    faults = list_active(open_lab(name))
    rows = [_fault_data(active) for active in faults]

    def text() -> str:
        if not rows:
            return "nothing is wrong"
        now = time.time()
        lines = [
            [
                str(active.id),
                active.fault.cluster,
                str(active.fault),
                f"{now - active.since:.0f}s",
                _describe_end(active, now),
            ]
            for active in faults
        ]
        return format_table(["id", "cluster", "fault", "age", "ends"], lines)

    emit_result(rows, form, text)


def _fault_data(active: ActiveFault) -> dict[str, Any]:
    return {
        "id": active.id,
        "cluster": active.fault.cluster,
        "kind": active.fault.kind,
        "targets": list(active.fault.targets),
        "options": dict(active.fault.options),
        "since": active.since,
        "until": active.until,
        "owner": active.owner[0] if active.owner else None,
    }


def _describe_end(active: ActiveFault, now: float) -> str:
    if active.until is not None:
        return f"in {max(0, active.until - now):.0f}s"
    return f"with process {active.owner[0]}" if active.owner else "when cleared"


@fault.command()
@name_option
@click.option("--all", "every", is_flag=True, help="All of them.")
@click.argument("ids", nargs=-1, type=int, metavar="[ID]…")
def clear(name: str, every: bool, ids: tuple[int, ...]) -> None:
    """Undo faults: those with these numbers, or all."""
    from fleet.errors import ConfigurationError
    from fleet.lab.faults import clear as undo

    if bool(ids) == every:
        raise ConfigurationError("say which faults: numbers, or --all", hint="`fleet lab fault list` shows them")
    for active in undo(open_lab(name), None if every else ids):
        print_message(f"undone: {active.id} {active.fault}")


@fault.command()
@scope_options
@click.option("--seed", type=int, help="The same seed gives the same faults again. [default: a new one, printed]")
@click.option("--for", "length", type=Seconds(), default="60s", show_default=True, help="How long in all.")
@click.option("--pause", type=Seconds(), default="5s", show_default=True, help="About how long between two faults.")
@click.option(
    "--lasts", nargs=2, type=Seconds(), default=("2s", "10s"), show_default=True, help="How long one lasts: from, to."
)
@click.option("--only", default="", metavar="A,B", help="Only these. [default: all that can be undone]")
@click.option("--dry-run", is_flag=True, help="Print what would happen when; nothing is broken.")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET…", shell_complete=_complete_target)
def run(
    scope: FaultScope,
    *,
    seed: int | None,
    length: float,
    pause: float,
    lasts: tuple[float, float],
    only: str,
    dry_run: bool,
    targets: tuple[str, ...],
) -> None:
    """Break the targets by chance, one after the other, and mend each; the seed that is printed does it again.

    \b
    fleet lab fault run pod/web-0 pod/web-1 node/lab-node-1 --for 2m
    fleet lab fault run pod/web-0 --only kill,freeze --seed 4711
    """
    import secrets

    from fleet.lab.faults.schedule import Schedule, play_schedule

    schedule = Schedule(
        seed=secrets.randbelow(1 << 32) if seed is None else seed,
        cluster=scope.builder.cluster,
        targets=targets,
        length=length,
        pause=pause,
        lasts=lasts,
        only=tuple(kind.strip() for kind in only.split(",") if kind.strip()),
        namespace=scope.namespace,
    )
    if dry_run:
        events = schedule.events()
        print_message(f"seed {schedule.seed}: {count_noun(len(events), 'fault')} in {schedule.length:g} s")
        click.echo("\n".join(str(event) for event in events))
        return
    play_schedule(scope.lab, schedule, click.echo)
