"""`fleet agent`: the process that applies to one cluster what was rendered for it, and the manifests that run it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import (
    INTERVAL,
    Listen,
    Seconds,
    format_status_every,
    get_default_cache,
    image_option,
    kubeconfig_option,
    log_option,
    parse_http_url,
    resync_option,
    status_every_option,
    status_option,
    verbose_option,
)

if TYPE_CHECKING:
    from fleet.agent.agent import BundleReader
    from fleet.kube.runtime.guard import GuardedClient
    from fleet.serve.commits import FollowedRepository


@click.command()
@click.option("--repository", "url", required=True, metavar="URL", help="Where `fleet render --push` pushes to.")
@click.option("--cluster", required=True, metavar="NAME", help="This cluster, as the fleet's repository names it.")
@click.option("--branch", metavar="NAME", help="Its branch there. [default: fleet/rendered/CLUSTER]")
@click.option("--report", metavar="URL", default="", help="Where to write health. [default: the same repository]")
@click.option(
    "--status-branch",
    metavar="NAME",
    default="fleet/status",
    show_default=True,
    help="The branch for it, as fleet.toml says.",
)
@kubeconfig_option("context is")
@click.option("--context", metavar="NAME", help="How to reach it. [default: in a pod, from within; else its name]")
@click.option("--poll", type=INTERVAL, default="30s", show_default=True, help="How often to ask for a new set.")
@resync_option
@status_option
@status_every_option
@click.option("--notify", metavar="URL", default="", callback=parse_http_url, help="POST changes of health there.")
@click.option("--listen", type=Listen(), metavar="ADDRESS:PORT", help="/healthz, /readyz, /metrics and /hooks.")
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Where the copy of the branch is.")
@click.option("--lease/--no-lease", default=True, help="In a pod, stand by while another replica leads.")
@click.option("--once", is_flag=True, help="Apply what there is, wait until it is healthy, report, and end.")
@click.option("--timeout", type=Seconds(), default="10m", show_default=True, help="With --once: how long to wait.")
@click.option(
    "--allow-rewritten", is_flag=True, help="With --once: apply a set that does not descend from what was applied."
)
@log_option
@click.option("--manifests", is_flag=True, help="Print the objects that run it in its cluster.")
@image_option
@click.option("--replicas", type=click.IntRange(1, 5), default=1, show_default=True, help="For --manifests.")
@verbose_option
def agent(
    *,
    url: str,
    cluster: str,
    branch: str | None,
    report: str,
    status_branch: str,
    kubeconfig: Path | None,
    context: str | None,
    poll: float,
    resync: float,
    status: bool,
    status_every: float,
    notify: str,
    listen: tuple[str, int] | None,
    cache: Path | None,
    lease: bool,
    once: bool,
    timeout: float,
    allow_rewritten: bool,
    form: str,
    manifests: bool,
    image: str | None,
    replicas: int,
    verbose: bool,
) -> int:
    """Keep this cluster what was rendered for it, until told to stop (SIGTERM, Ctrl-C).

    For clusters with pull=True. Whoever renders needs no credentials of the cluster, and this needs none but for git.
    It applies, repairs, watches and reports as `fleet serve` does, and runs nobody's code. FLEET_WEBHOOK_SECRET and
    FLEET_NOTIFY_SECRET are as there.

    \b
    fleet agent --repository https://git.example.com/team/fleet.git --cluster edge-1
    fleet agent --repository https://… --cluster edge-1 --context edge --once
    fleet agent --repository https://… --cluster edge-1 --manifests --image registry.example.com/fleet-serve:1.0
    """
    from fleet.agent.agent import BundleReader
    from fleet.agent.manifests import NAME
    from fleet.bundle.storage import bundle_branch
    from fleet.git import refs
    from fleet.repository.settings import GitSettings
    from fleet.serve.commits import FollowedRepository

    if allow_rewritten and not once:
        raise click.UsageError("--allow-rewritten is for a single run: add --once")
    origin = FollowedRepository.parse(f"{url}#{branch or bundle_branch(GitSettings().rendered, cluster)}")
    if report:
        refs.address(report, by_person=True)
    if manifests:
        flags = [f"--poll={poll:.15g}s", f"--resync={resync:.15g}s", *([] if status else ["--no-status"])]
        flags += format_status_every(status_every)
        values = {"report": report, "notify": notify, "status-branch": status_branch}
        flags += [f"--{name}={value}" for name, value in values.items() if value]
        return _print_manifests(image, [f"--cluster={cluster}", f"--branch={origin.branch}", *flags], origin, replicas)
    inside = _is_inside(kubeconfig, context)
    reader = BundleReader(cluster, context, report, status_branch)
    directory = cache or get_default_cache()
    if once:
        return _run_once(
            origin, reader, directory, kubeconfig, timeout, inside=inside, status=status, rewritten=allow_rewritten
        )

    import asyncio
    import os

    from fleet.cli.process import collect_less
    from fleet.kube.runtime.leader import Lease
    from fleet.serve.options import ServeOptions
    from fleet.serve.process import ServeProcess, log_to_stderr

    options = ServeOptions(
        kubeconfig,
        directory,
        poll=poll,
        resync=resync,
        status=status,
        every=status_every,
        notify=notify,
        notify_secret=os.environ.get("FLEET_NOTIFY_SECRET", "").strip(),
        inside=inside,
        name=NAME,
    )
    collect_less()
    log_to_stderr(form, verbose=verbose)
    secret = os.environ.get("FLEET_WEBHOOK_SECRET", "").strip()
    client = _make_lease_client() if inside and lease else None
    leadership = Lease("fleet-system", NAME) if client is not None else None
    asyncio.run(ServeProcess([origin], options, listen, client, leadership, secret, lambda: reader).run())
    return 0


def _print_manifests(image: str | None, flags: list[str], origin: FollowedRepository, replicas: int) -> int:
    """Print the objects that run the agent in its cluster."""
    from fleet.agent.manifests import manifests
    from fleet.text import without_credentials
    from fleet.yaml_text import dump_all

    if not image:
        raise click.UsageError("--manifests needs --image, one with fleet and git in it")
    arguments = [without_credentials(flag) for flag in (f"--repository={origin.url}", *flags)]  # those are in a Secret
    click.echo(dump_all(manifests(image, arguments, replicas)).rstrip())
    return 0


def _is_inside(kubeconfig: Path | None, context: str | None) -> bool:
    """Return whether the agent runs in a pod of its cluster and reaches the API server from within."""
    import os

    return kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ


def _make_lease_client() -> GuardedClient:
    """Return a client for the Lease of the replicas, in the cluster of the agent."""
    from fleet.agent.manifests import NAME
    from fleet.kube.runtime.guard import GuardedClient

    return GuardedClient(in_cluster=True, agent=NAME)


def _run_once(
    origin: FollowedRepository,
    reader: BundleReader,
    cache: Path,
    kubeconfig: Path | None,
    timeout: float,
    *,
    inside: bool,
    status: bool,
    rewritten: bool,
) -> int:
    """Apply the bundle there is, print the results, and return the exit code; raise the errors as one."""
    from fleet.agent.agent import sync_once
    from fleet.cli.output import print_message
    from fleet.cli.results import collect_errors, finish, format_results
    from fleet.sync.commit import CommitOptions
    from fleet.sync.progress import show_progress
    from fleet.sync.result import WaitingError

    options = CommitOptions(kubeconfig, timeout=timeout)
    with show_progress(quiet=False) as progress:
        bundle, results = sync_once(
            origin, reader, cache, options, progress, inside=inside, status=status, rewritten=rewritten
        )
    print_message(f"{origin.branch} is {bundle.files.title}")
    waiting = [result for result in results if isinstance(result.problem, WaitingError)]
    ended = [result for result in results if result not in waiting]
    click.echo(format_results(ended))
    for result in waiting:
        print_message(result.problem.message if result.problem else "")
    unhealthy = [result.unhealthy for result in ended if result.unhealthy and not result.problem]
    return finish(collect_errors(ended) + unhealthy)
