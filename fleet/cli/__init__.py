"""The command line. One module per command, imported when that command runs: `fleet --help` starts in a blink.

A new command is a new module and one line in COMMANDS. Errors become exit codes in `fleet.cli.process`, nowhere else.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from fleet.cli.lazy import LazyGroup
from fleet.cli.process import run_command
from fleet.version import __version__

COMMANDS = {
    "init": (
        "fleet.cli.commands.init:init",
        "Make a new repository: settings, a cluster, a stack, tests, a CI workflow.",
    ),
    "new": ("fleet.cli.commands.new:new", "Write a package that extends fleet, such as an app type of your own."),
    "check": ("fleet.cli.commands.check:check", "Evaluate and validate every stack; nothing is sent."),
    "render": ("fleet.cli.commands.render:render", "Print the manifests that the stacks become."),
    "preview": (
        "fleet.cli.commands.preview:preview",
        "Show what a sync would do in every cluster; nothing is written.",
    ),
    "comment": ("fleet.cli.commands.comment:comment", "Post a preview that another job made on its pull request."),
    "approve": ("fleet.cli.commands.approve:approve", "Record that a commit, or a wave of a rollout, is approved."),
    "sync": ("fleet.cli.commands.sync:sync", "Apply a commit to every cluster, wait for health, write it into git."),
    "serve": (
        "fleet.cli.commands.serve:serve",
        "Keep every cluster what git says, for ever: apply, watch, repair, report.",
    ),
    "agent": (
        "fleet.cli.commands.agent:agent",
        "In a cluster that pulls: apply what was rendered for it, watch, report.",
    ),
    "status": ("fleet.cli.commands.status:status", "Health, version and revision of every stack in every cluster."),
    "diff": ("fleet.cli.commands.diff:diff", "Where the clusters are not what git says, field by field."),
    "history": (
        "fleet.cli.commands.history:history",
        "Commits that were synced: who, when, and the outcome in every cluster.",
    ),
    "rollback": (
        "fleet.cli.commands.rollback:rollback",
        "A commit that takes a stack back to what it was, as a branch.",
    ),
    "watch": ("fleet.cli.commands.watch:watch", "Stacks and clusters as they change, for as long as you look."),
    "suspend": ("fleet.cli.commands.suspend:suspend", "Leave stacks as they are until they are resumed."),
    "resume": ("fleet.cli.commands.suspend:resume", "Let syncs change suspended stacks again."),
    "destroy": ("fleet.cli.commands.destroy:destroy", "Take stacks out of the clusters."),
    "adopt": ("fleet.cli.commands.adopt:adopt", "Find what runs already, and write a stack that takes it over."),
    "disconnect": (
        "fleet.cli.commands.disconnect:disconnect",
        "Give an app back: it keeps running, and fleet no longer manages it.",
    ),
    "roll": ("fleet.cli.commands.roll:roll", "Restart every member of an app once, one at a time."),
    "restart": ("fleet.cli.commands.restart:restart", "Restart one member of an app."),
    "rebuild": ("fleet.cli.commands.rebuild:rebuild", "Give a member an empty volume and its data from the others."),
    "switchover": ("fleet.cli.commands.switchover:switchover", "Have another member of an app lead."),
    "defragment": ("fleet.cli.commands.defragment:defragment", "Have every member of an app make its file smaller."),
    "operations": (
        "fleet.cli.commands.operations:operations",
        "What was asked of apps once, and what became of it.",
    ),
    "connect": ("fleet.cli.commands.connect:connect", "Open an app's own client, or say how programs connect."),
    "explain": (
        "fleet.cli.commands.explain:explain",
        "What the operator saw of an app, what it decided, and what it waits for.",
    ),
    "backup": ("fleet.cli.commands.backup:backup", "Make a backup of an app now, or list those that are known."),
    "operator": (
        "fleet.cli.commands.operator:operator",
        "The part of fleet inside clusters: install, status, uninstall.",
    ),
    "crds": ("fleet.cli.commands.crds:crds", "Print, write or check the custom resource definitions."),
    "cluster": ("fleet.cli.commands.cluster:cluster", "Clusters of this repository: add, list, check, remove."),
    "doctor": (
        "fleet.cli.commands.doctor:doctor",
        "Say what this machine gives: Python, git, and the sandbox for stacks.",
    ),
    "completion": (
        "fleet.cli.commands.completion:completion",
        "Print the script that completes commands and names in a shell.",
    ),
    "lab": ("fleet.cli.commands.lab.lab:lab", "Real Kubernetes clusters on this machine, in one command."),
}


@click.group(
    cls=LazyGroup,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, prog_name="fleet")
def cli() -> None:
    """Stateful apps as typed Python in git, applied and kept healthy in every cluster."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code of fleet.errors."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_command(cli, arguments, "fleet")
