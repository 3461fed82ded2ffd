"""`fleet serve`: the process that follows repositories for ever, and the manifests that run it in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import (
    INTERVAL,
    Listen,
    format_status_every,
    get_default_cache,
    image_option,
    kubeconfig_option,
    log_option,
    parse_http_url,
    resync_option,
    signers_option,
    status_every_option,
    status_option,
    verbose_option,
)

if TYPE_CHECKING:
    from fleet.kube.runtime.guard import GuardedClient
    from fleet.serve.commits import FollowedRepository


@click.command()
@click.argument("repositories", nargs=-1, metavar="[REPOSITORY[#BRANCH]]...")
@kubeconfig_option("clusters' contexts are")
@click.option("--poll", type=INTERVAL, default="30s", show_default=True, help="How often to ask for new commits.")
@resync_option
@status_option
@status_every_option
@click.option(
    "--require-approved", is_flag=True, help="Apply only what was recorded as approved. [default: as fleet.toml says]"
)
@signers_option
@click.option("--statuses/--no-statuses", default=True, help="With a forge's token, set commit statuses.")
@click.option("--previews/--no-previews", default=True, help="With a forge's token, preview pull requests.")
@click.option(
    "--notify", metavar="URL", default="", callback=parse_http_url, help="POST changes of health there, as JSON."
)
@click.option(
    "--listen", type=Listen(), metavar="ADDRESS:PORT", help="/healthz, /readyz, /metrics, /hooks and /previews."
)
@click.option(
    "--public-url",
    metavar="URL",
    default="",
    callback=parse_http_url,
    help="How people reach --listen: comments then lead to previews as pages.",
)
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Where copies of repositories are.")
@click.option(
    "--management",
    metavar="CONTEXT",
    help="The cluster with the replicas' Lease and with kubeconfigs in Secrets. [default: in a pod, its own]",
)
@click.option(
    "--trust-kubeconfigs",
    is_flag=True,
    help="Kubeconfigs in Secrets may run programs (exec) and read files here. [default: such ones are refused]",
)
@click.option(
    "--reach",
    multiple=True,
    metavar="REPOSITORY=PATTERN,…",
    help="The contexts, and Secrets as namespace/name, that it may use; once for each. [default: all share all]",
)
@click.option(
    "--forge-token",
    "tokens",
    multiple=True,
    metavar="REPOSITORY=VARIABLE",
    help="The environment variable with its forge's token; others then have none. [default: all share one]",
)
@click.option("--lease/--no-lease", default=True, help="Stand by while another replica leads. [default: lease]")
@click.option(
    "--reports",
    multiple=True,
    metavar="[CLUSTER,…=]URL",
    help="Where agents report, if not here too, and which of them; may be repeated.",
)
@log_option
@click.option("--manifests", is_flag=True, help="Print the objects that run it in a management cluster.")
@image_option
@click.option("--replicas", type=click.IntRange(1, 5), default=2, show_default=True, help="For --manifests.")
@verbose_option
def serve(
    *,
    repositories: Sequence[str],
    kubeconfig: Path | None,
    poll: float,
    resync: float,
    status: bool,
    status_every: float,
    require_approved: bool,
    signers: Path | None,
    statuses: bool,
    previews: bool,
    notify: str,
    listen: tuple[str, int] | None,
    public_url: str,
    cache: Path | None,
    management: str | None,
    trust_kubeconfigs: bool,
    reach: Sequence[str],
    tokens: Sequence[str],
    lease: bool,
    reports: Sequence[str],
    form: str,
    manifests: bool,
    image: str | None,
    replicas: int,
    verbose: bool,
) -> int:
    """Keep every cluster what git says, until told to stop (SIGTERM, Ctrl-C).

    Follows the repositories that are named, or the remote of the one that it is started in. New commits are applied as
    by `fleet sync`; what others change is put back, or reported where the stack says so; health goes into git. For
    clusters that pull it renders what their agents apply, as by `fleet render --push`. It keeps no state: stop or kill
    it at any time, start it anywhere. FLEET_WEBHOOK_SECRET is the secret of webhooks to /hooks/github, /hooks/gitlab
    and /hooks/gitea, FLEET_FORGE_TOKEN (or the forge's own name for it) a token that may set commit statuses,
    FLEET_NOTIFY_SECRET the key that notifications are signed with.

    \b
    fleet serve
    fleet serve https://git.example.com/team/fleet.git#main --listen :8080
    fleet serve https://… --manifests --image registry.example.com/fleet-serve:1.0 | kubectl apply --server-side -f -
    """
    from fleet.bundle.reports import parse_report_repository as parse_report

    report_sources = tuple(parse_report(report) for report in reports)
    if manifests:
        flags = [*([] if status else ["--no-status"]), *(["--require-approved"] if require_approved else [])]
        flags += [] if previews else ["--no-previews"]
        flags += ["--trust-kubeconfigs"] if trust_kubeconfigs else []
        flags += [*(f"--reach={scope}" for scope in reach), *(f"--forge-token={token}" for token in tokens)]
        flags += [f"--reports={report}" for report in reports]
        flags += [f"--public-url={public_url}"] if public_url else []
        flags += format_status_every(status_every)
        flags += [*([] if statuses else ["--no-statuses"]), *([f"--notify={notify}"] if notify else [])]
        flags = [f"--poll={poll:.15g}s", f"--resync={resync:.15g}s", *flags]
        return _print_manifests(image, repositories, replicas, flags, signers)

    import asyncio
    import os

    from fleet.cli.process import collect_less
    from fleet.forge.detect import token_variables
    from fleet.kube.runtime.leader import Lease
    from fleet.serve.options import ServeOptions, parse_scopes
    from fleet.serve.process import NAME, ServeProcess, log_to_stderr

    if public_url and listen is None:
        raise click.UsageError("--public-url says how people reach what listens: say --listen, too")
    origins = _find_origins(repositories, signers)
    client = _make_management_client(management, kubeconfig)
    scopes = parse_scopes([origin.address for origin in origins], reach, tokens)
    variables = (*token_variables(), *(scope.variable or "" for scope in scopes.values()))
    has_token = any(os.environ.get(name) for name in variables)
    options = ServeOptions(
        kubeconfig,
        cache or get_default_cache(),
        poll=poll,
        resync=resync,
        status=status,
        every=status_every,
        require_approved=require_approved,
        trust_kubeconfigs=trust_kubeconfigs,
        signers=signers,
        forge=statuses and has_token,
        previews=previews and has_token,
        public_url=public_url,
        notify=notify,
        notify_secret=os.environ.get("FLEET_NOTIFY_SECRET", "").strip(),
        reports=report_sources,
    )
    collect_less()
    log_to_stderr(form, verbose=verbose)
    leadership = Lease("fleet-system", NAME) if client is not None and lease else None
    secret = os.environ.get("FLEET_WEBHOOK_SECRET", "").strip()
    asyncio.run(ServeProcess(origins, options, listen, client, leadership, secret, scopes=scopes).run())
    return 0


def _print_manifests(
    image: str | None, repositories: Sequence[str], replicas: int, flags: Sequence[str], signers: Path | None
) -> int:
    """Print the objects that run the service in a management cluster."""
    from fleet.serve.manifests import manifests
    from fleet.yaml_text import dump_all

    if not image:
        raise click.UsageError("--manifests needs --image, one with fleet and git in it")
    origins = [
        str(origin) for origin in _find_origins(repositories, signers)
    ]  # without credentials: those are in a Secret
    objects = manifests(image, [*flags, *origins], replicas, signers=signers.read_text() if signers else "")
    click.echo(dump_all(objects).rstrip())
    return 0


def _find_origins(repositories: Sequence[str], signers: Path | None) -> list[FollowedRepository]:
    """Return the repositories that the user named, or the remote of the one around the current directory."""
    from fleet.git.repository import GitRepository
    from fleet.git.signature import check_outside
    from fleet.repository import Repository
    from fleet.serve.commits import FollowedRepository

    if repositories:
        return [FollowedRepository.parse(repository) for repository in dict.fromkeys(repositories)]
    repository = Repository.find()
    clone = GitRepository.find(repository.root)
    if signers:
        check_outside(clone, signers)
    return [FollowedRepository.of_clone(clone, repository.settings.git.remote, repository.settings.git.branch)]


def _make_management_client(context: str | None, kubeconfig: Path | None) -> GuardedClient | None:
    """Return a client of the management cluster; None if there is none."""
    import os

    from fleet.kube.runtime.guard import GuardedClient
    from fleet.serve.process import NAME

    if context is not None:
        return GuardedClient(kubeconfig=kubeconfig, context=context, agent=NAME)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return GuardedClient(in_cluster=True, agent=NAME)
    return None
