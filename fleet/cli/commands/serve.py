"""`fleet serve`: follow repositories for ever; in the foreground, or as manifests for a management cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.options import INTERVAL, Listen, log_option, signers_option

if TYPE_CHECKING:
    from fleet.kube.runtime.guard import GuardedClient
    from fleet.serve.commits import Origin


TOKENS = ("FLEET_FORGE_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN")


def url_option_value(_: click.Context, __: click.Parameter, value: str) -> str:
    if value and not value.startswith(("https://", "http://")):
        raise click.BadParameter(f"{value!r} is no address such as https://example.com/health")
    return value


@click.command()
@click.argument("repositories", nargs=-1, metavar="[REPOSITORY[#BRANCH]]...")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Where the clusters' contexts are. [default: as kubectl finds it]",
)
@click.option("--poll", type=INTERVAL, default="30s", show_default=True, help="How often to ask for new commits.")
@click.option(
    "--resync", type=INTERVAL, default="10m", show_default=True, help="How often to look at all, besides watching."
)
@click.option("--status/--no-status", default=True, help="Write health into git. [default: status]")
@click.option(
    "--require-approved", is_flag=True, help="Apply only what was recorded as approved. [default: as fleet.toml says]"
)
@signers_option
@click.option("--statuses/--no-statuses", default=True, help="With a forge's token, set commit statuses.")
@click.option("--previews/--no-previews", default=True, help="With a forge's token, preview pull requests.")
@click.option(
    "--notify", metavar="URL", default="", callback=url_option_value, help="POST changes of health there, as JSON."
)
@click.option(
    "--listen", type=Listen(), metavar="ADDRESS:PORT", help="/healthz, /readyz, /metrics, /hooks and /previews."
)
@click.option(
    "--public-url",
    metavar="URL",
    default="",
    callback=url_option_value,
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
@click.option("--image", metavar="IMAGE", help="For --manifests: an image with fleet and git.")
@click.option("--replicas", type=click.IntRange(1, 5), default=2, show_default=True, help="For --manifests.")
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def serve(
    *,
    repositories: Sequence[str],
    kubeconfig: Path | None,
    poll: float,
    resync: float,
    status: bool,
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
    from fleet.bundle.reports import reports as place

    elsewhere = tuple(place(one) for one in reports)
    if manifests:
        flags = [*([] if status else ["--no-status"]), *(["--require-approved"] if require_approved else [])]
        flags += [] if previews else ["--no-previews"]
        flags += ["--trust-kubeconfigs"] if trust_kubeconfigs else []
        flags += [*(f"--reach={one}" for one in reach), *(f"--forge-token={one}" for one in tokens)]
        flags += [f"--reports={one}" for one in reports]
        flags += [f"--public-url={public_url}"] if public_url else []
        flags += [*([] if statuses else ["--no-statuses"]), *([f"--notify={notify}"] if notify else [])]
        flags = [f"--poll={poll:.15g}s", f"--resync={resync:.15g}s", *flags]
        return _print(image, repositories, replicas, flags, signers)

    import asyncio
    import os

    from fleet.cli.gc import collect_less
    from fleet.kube.runtime.leader import Lease
    from fleet.serve.options import Manner
    from fleet.serve.process import NAME, Program, log_to_stderr
    from fleet.serve.scope import parse_scopes

    if public_url and listen is None:
        raise click.UsageError("--public-url says how people reach what listens: say --listen, too")
    origins = _origins(repositories, signers)
    client = _management(management, kubeconfig)
    scopes = parse_scopes([one.address for one in origins], reach, tokens)
    may_tell = any(os.environ.get(name) for name in (*TOKENS, *(one.variable or "" for one in scopes.values())))
    manner = Manner(
        kubeconfig,
        cache or cache_of(),
        poll=poll,
        resync=resync,
        status=status,
        require_approved=require_approved,
        trust_kubeconfigs=trust_kubeconfigs,
        signers=signers,
        forge=statuses and may_tell,
        previews=previews and may_tell,
        public_url=public_url,
        notify=notify,
        notify_secret=os.environ.get("FLEET_NOTIFY_SECRET", "").strip(),
        reports=elsewhere,
    )
    collect_less()
    log_to_stderr(form, verbose=verbose)
    shared = Lease("fleet-system", NAME) if client is not None and lease else None
    secret = os.environ.get("FLEET_WEBHOOK_SECRET", "").strip()
    asyncio.run(Program(origins, manner, listen, client, shared, secret, scopes=scopes).run())
    return 0


def _print(
    image: str | None, repositories: Sequence[str], replicas: int, flags: Sequence[str], signers: Path | None
) -> int:
    from fleet.serve.manifests import manifests
    from fleet.yaml_text import dump_all

    if not image:
        raise click.UsageError("--manifests needs --image, one with fleet and git in it")
    told = [str(one) for one in _origins(repositories, signers)]  # without credentials: those are in a Secret
    found = manifests(image, [*flags, *told], replicas, signers=signers.read_text() if signers else "")
    click.echo(dump_all(found).rstrip())
    return 0


def _origins(repositories: Sequence[str], signers: Path | None) -> list[Origin]:
    from fleet.git.repository import Repository as Git
    from fleet.git.signature import check_outside
    from fleet.repository import Repository
    from fleet.serve.commits import Origin

    if repositories:
        return [Origin.parse(one) for one in dict.fromkeys(repositories)]
    here = Repository.find()
    clone = Git.find(here.root)
    if signers:
        check_outside(clone, signers)
    return [Origin.of_clone(clone, here.settings.git.remote, here.settings.git.branch)]


def _management(context: str | None, kubeconfig: Path | None) -> GuardedClient | None:
    import os

    from fleet.kube.runtime.guard import GuardedClient
    from fleet.serve.process import NAME

    if context is not None:
        return GuardedClient(kubeconfig=kubeconfig, context=context, agent=NAME)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return GuardedClient(in_cluster=True, agent=NAME)
    return None


def cache_of() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("fleet") / "mirrors"
