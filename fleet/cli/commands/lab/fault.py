"""`fleet lab fault`: faults in a lab, listed, cleared and made by chance; those made on purpose are in `verbs.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleet.cli.commands.lab.options import FaultScope, name_option, open_lab
from fleet.cli.commands.lab.verbs import VerbGroup, complete_target, scope_options
from fleet.cli.options import Seconds
from fleet.cli.output import emit_result, format_table, output_option, print_message
from fleet.text import count_noun

if TYPE_CHECKING:
    from fleet.lab.faults import ActiveFault


@click.group(cls=VerbGroup)
def fault() -> None:
    """Break something in a lab on purpose, and mend it again.

    \b
    TARGET is
      pod/NAME, pod/NAMESPACE/NAME     a pod
      node/NAME                        a real node
      volume/CLAIM                     the volume of a claim
      kube-apiserver, etcd, ...        a program of the control plane
    """


@fault.group(
    cls=VerbGroup, verbs="api", short_help="Let the API server answer with errors, be slow, forget, skew Leases."
)
def api() -> None:
    """Let the API server answer with errors, be slow, forget, or tell the time of Leases wrong.

    All clients of the cluster meet it, also nodes, controllers and pods. When such a fault begins or ends, their
    connections break once.
    """


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
@click.argument("targets", nargs=-1, required=True, metavar="TARGET…", shell_complete=complete_target)
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
        cluster=scope.targets.cluster,
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
