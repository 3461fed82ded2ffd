"""`fleet lab`: labs, which are real clusters on this machine, and images for their nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.commands.lab.options import name_option, open_lab
from fleet.cli.lazy import LazyGroup
from fleet.cli.output import emit_result, format_table, output_option, print_message

if TYPE_CHECKING:
    pass


def _complete_recipe(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an image recipe."""
    from fleet.lab.images.recipes import all_recipes

    recipes = all_recipes()
    names = [f"{recipe.name}:{recipe.version}" for recipe in recipes] + [recipe.name for recipe in recipes]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


MORE = {
    "fault": ("fleet.cli.commands.lab.fault:fault", "Break something on purpose, and mend it again."),
    "service": (
        "fleet.cli.commands.lab.service:service",
        "A forge (Gitea) and an S3 server for the programs of a lab.",
    ),
}


@click.group(cls=LazyGroup, commands=MORE)
def lab() -> None:
    """Real Kubernetes clusters on this machine, without Docker.

    Each cluster has etcd, an API server, controllers and a scheduler, and nodes that are real (containers run) or
    simulated (for scale). The first start builds them from source; later ones take seconds.
    """


@lab.command()
@name_option
@click.option("--clusters", default="", help="Names of the clusters, as a,b,c. [default: lab]")
@click.option(
    "--nodes",
    type=click.Choice(["real", "simulated"]),
    help="Real nodes run containers (Linux, root); simulated ones need no rights. [default: real where possible]",
)
@click.option("--workers", type=int, help="Nodes per cluster. [default: 2]")
@click.option(
    "--kubernetes", metavar="VERSION", help="Version of Kubernetes. [default: the newest that the lab builds]"
)
def up(name: str, clusters: str, nodes: Any, workers: int | None, kubernetes: str | None) -> None:
    """Start a lab, or complete one: what runs already is left alone.

    \b
    fleet lab up                                  one cluster with two nodes
    fleet lab up --clusters eu-1,us-1             two clusters
    fleet lab up --nodes simulated --workers 100  a cluster of a hundred simulated nodes
    """
    import time

    from fleet.lab.lab import Lab

    begin = time.monotonic()
    names = [cluster.strip() for cluster in clusters.split(",") if cluster.strip()]
    running = Lab.up(name, names, nodes=nodes, workers=workers, kubernetes=kubernetes, say=print_message)
    print_message(f"lab {name!r} is up after {time.monotonic() - begin:.1f} s")
    option = "" if name == "default" else f" --name {name}"
    print_message(f"  look around:  fleet lab shell{option}")
    print_message(f"  from a shell: export KUBECONFIG={running.kubeconfig}")
    print_message(f"  stop it:      fleet lab down{option}")


@lab.command()
@click.option(
    "--nodes", type=click.Choice(["real", "simulated"]), multiple=True, help="[default: all that can be here]"
)
@click.argument("things", nargs=-1, metavar="[IMAGE|SERVICE]…", shell_complete=_complete_recipe)
def prepare(nodes: tuple[Any, ...], things: tuple[str, ...]) -> None:
    """Install and build ahead of time what labs need, so that the first `up` or test run does not wait for it.

    \b
    fleet lab prepare                    programs for clusters, real nodes included where they are possible
    fleet lab prepare etcd redis:8.0     and the images of etcd, and one of redis
    fleet lab prepare images             and all images
    fleet lab prepare forge s3           and the programs of these services
    """
    from fleet.lab.images.bake import bake
    from fleet.lab.images.recipes import find_recipes
    from fleet.lab.lab import prepare_nodes as build
    from fleet.lab.planning import default_nodes
    from fleet.lab.services import SERVICES

    recipes = [recipe for thing in things if thing not in SERVICES for recipe in find_recipes(thing)]
    for kind in nodes or dict.fromkeys(("simulated", default_nodes())):
        build(kind)
    for recipe in recipes:
        bake(recipe)
    for name in SERVICES.keys() & set(things):
        SERVICES[name].build()
    print_message("all that labs need is there")


@lab.command()
@name_option
@click.option("--all", "every", is_flag=True, help="All labs.")
def down(name: str, every: bool) -> None:
    """Stop a lab and remove everything of it, whatever state it is in."""
    from fleet.lab.lab import take_down
    from fleet.lab.spec import list_lab_names

    for lab_name in list_lab_names() if every else [name]:
        take_down(lab_name)
        print_message(f"lab {lab_name!r} is gone")


@lab.command("list")
@output_option
def list_labs(form: str) -> None:
    """List the labs of this machine."""
    from fleet.errors import FleetError
    from fleet.lab.programs import process
    from fleet.lab.spec import LabSpec, list_lab_names

    rows: list[dict[str, Any]] = []
    for name in list_lab_names():
        try:
            spec = LabSpec.load(name)
        except FleetError:
            rows.append({"name": name, "clusters": [], "nodes": "", "running": False})
            continue
        kinds = ", ".join(sorted({cluster.nodes for cluster in spec.clusters}))
        names = [cluster.name for cluster in spec.clusters]
        rows.append(
            {
                "name": name,
                "clusters": names,
                "nodes": kinds,
                "running": bool(process.running_processes(spec.directory)),
            }
        )

    def text() -> str:
        if not rows:
            return "no labs; start one with `fleet lab up`"
        lines = [
            [row["name"], ",".join(row["clusters"]), row["nodes"], "yes" if row["running"] else "no"] for row in rows
        ]
        return format_table(["name", "clusters", "nodes", "running"], lines)

    emit_result(rows, form, text)


@lab.command()
@name_option
@output_option
def status(name: str, form: str) -> None:
    """Show the clusters, their nodes and what they use. Exits with 4 when something is not ready."""
    lab_status = open_lab(name).status()

    def text() -> str:
        rows = [
            [
                cluster["name"],
                "ready" if cluster["ready"] else "not ready",
                cluster["server"],
                f"{sum(node['ready'] for node in cluster['nodes'])}/{len(cluster['nodes'])} {cluster['nodeKind']}",
                f"{cluster['memory'] // 1_000_000} MB",
            ]
            for cluster in lab_status["clusters"]
        ]
        lines = format_table(["cluster", "state", "server", "nodes", "control plane"], rows)
        missing = [
            f"{cluster['name']}: {program['name']} does not run; see `fleet lab logs {program['name']}"
            f" --cluster {cluster['name']}`, start it with `fleet lab up --name {name}`"
            for cluster in lab_status["clusters"]
            for program in cluster["programs"]
            if program["pid"] is None
        ]
        unready = [
            f"{cluster['name']}: node {node['name']} is not ready; see `fleet lab logs {node['name']}-kubelet"
            f" --cluster {cluster['name']}`"
            for cluster in lab_status["clusters"]
            for node in cluster["nodes"]
            if not node["ready"]
        ]
        absent = [
            f"{cluster['name']}: {cluster['workers'] - len(cluster['nodes'])} of {cluster['workers']} nodes are"
            f" missing; `fleet lab up --name {name}` makes them"
            for cluster in lab_status["clusters"]
            if len(cluster["nodes"]) < cluster["workers"]
        ]
        return "\n".join([lines, *missing, *unready, *absent])

    emit_result(lab_status, form, text)
    if not lab_status["ready"]:
        raise SystemExit(4)


@lab.command()
@name_option
def kubeconfig(name: str) -> None:
    """Print the path of the lab's kubeconfig: one context per cluster, named as the cluster."""
    from fleet.errors import NotFoundError

    opened = open_lab(name)
    opened.spec.cluster_or_first(None)
    if not opened.kubeconfig.exists():
        raise NotFoundError(f"lab {name!r} has no kubeconfig yet", hint=f"`fleet lab up --name {name}` completes it")
    click.echo(opened.kubeconfig)


@lab.command()
@name_option
@click.option("--cluster", help="Cluster. [default: the lab's first]")
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.option("-n", "--lines", default=50, show_default=True, help="Lines from the end.")
@click.argument("program", required=False)
def logs(name: str, cluster: str | None, follow: bool, lines: int, program: str | None) -> None:
    """Show the log of PROGRAM (kube-apiserver, etcd, NODE-kubelet, …); without one, which there are."""
    from fleet.errors import NotFoundError
    from fleet.lab.programs.process import read_tail

    opened = open_lab(name)
    paths = opened.logs(opened.spec.cluster_or_first(cluster).name)
    if program is None:
        click.echo("\n".join(paths))
        return
    if program not in paths:
        raise NotFoundError(f"there is no log of {program!r}", hint=f"there are: {', '.join(paths)}")
    text = read_tail(paths[program], lines)
    if text:
        click.echo(text)
    if follow:
        _follow_log(paths[program])


def _follow_log(path: Path) -> None:
    """Print what is added to a log until the user ends it."""
    import time

    with path.open(errors="replace") as log:
        log.seek(0, 2)
        while True:
            text = log.read()
            if text:
                click.echo(text, nl=False)
            time.sleep(0.2)


@lab.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@name_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(name: str, command: tuple[str, ...]) -> None:
    """Open a shell, or run COMMAND, with the lab's kubeconfig and kubectl.

    \b
    fleet lab shell
    fleet lab shell kubectl get nodes
    fleet lab shell kubectl exec web-0 -- hostname
    """
    import os
    import shutil

    from fleet.errors import NotFoundError

    environment = open_lab(name).environment()
    arguments = list(command) or [os.environ.get("SHELL") or "/bin/sh"]
    if not command:
        print_message(f"a shell for lab {name!r}: kubectl works, contexts are the clusters; leave it with `exit`")
    if not shutil.which(arguments[0], path=environment["PATH"]):
        raise NotFoundError(f"there is no command {arguments[0]!r}")
    os.execvpe(arguments[0], arguments, environment)  # noqa: S606 - the user asked for it


@lab.group()
def image() -> None:
    """Container images for real nodes, without a registry."""


@image.command("list")
@output_option
def list_images(form: str) -> None:
    """List the images that can be built, and the size of those that are."""
    from fleet.lab.images.bake import find_archive
    from fleet.lab.images.recipes import all_recipes

    rows: list[dict[str, Any]] = []
    for recipe in all_recipes():
        archive = find_archive(recipe)
        size = archive.stat().st_size if archive else None
        rows.append(
            {"name": f"{recipe.name}:{recipe.version}", "image": recipe.reference, "from": recipe.source, "size": size}
        )

    def text() -> str:
        lines = [[*list(row.values())[:3], f"{row['size'] // 1_000_000} MB" if row["size"] else "-"] for row in rows]
        return format_table(["name", "image", "from", "size"], lines)

    emit_result(rows, form, text)


@image.command("build")
@name_option
@click.option("--no-load", is_flag=True, help="Only build; print the archives' paths.")
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=_complete_recipe)
def build_image(name: str, no_load: bool, names: tuple[str, ...]) -> None:
    """Build images and give them to the lab's nodes. NAME is `etcd` or `etcd:3.5`; `image list` shows all.

    \b
    fleet lab image build etcd:3.5 fleet-operator
    """
    from fleet.lab.images.bake import bake
    from fleet.lab.images.recipes import find_recipes

    recipes = [recipe for wanted_name in names for recipe in find_recipes(wanted_name)]
    opened = None if no_load else open_lab(name)
    archives = [bake(recipe) for recipe in recipes]
    for line in opened.load_images(archives) if opened else archives:
        click.echo(line)


@image.command("load")
@name_option
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def load_image(name: str, file: Path) -> None:
    """Give the lab's nodes an image of your own: FILE is what `docker save` or `podman save` writes."""
    from fleet.errors import ConfigurationError
    from fleet.lab.images.archive import read_images

    if not read_images(file):
        raise ConfigurationError(
            f"{file} is not an archive of a named image",
            hint="write it with `docker save NAME:TAG -o FILE` or `podman save`",
        )
    for reference in open_lab(name).load_images([file.absolute()]):
        click.echo(reference)
