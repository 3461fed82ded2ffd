"""Start two clusters, make a git repository from the example fleet, preview it, sync it, and show what git knows.

It asks nothing, can be run again, and leaves the lab `demo` running to look around in.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from fleet.lab import Lab

PROJECT = Path(__file__).parents[2]
NAME = "demo"
CLUSTERS = ["eu-1", "us-1"]


def main() -> None:
    say("Two clusters, each with an API server of its own and two nodes")
    lab = Lab.up(NAME, CLUSTERS, workers=2, say=lambda text: print(f"  {text}", file=sys.stderr))
    run(lab, PROJECT, "fleet", "lab", "status", "--name", NAME)

    say("A git repository with the example fleet: stacks/ and clusters/")
    clone = repository(lab)
    run(lab, clone, "git", "log", "--oneline", "--stat", "-1")

    say("What would change in every cluster")
    run(lab, clone, "fleet", "preview")

    say("Apply the commit to every cluster")
    run(lab, clone, "fleet", "sync", "--no-wait")

    say("What git knows now: the status branch")
    run(lab, clone, "fleet", "status", "--git")
    run(lab, clone, "git", "fetch", "--quiet", "origin")
    run(lab, clone, "git", "ls-tree", "-r", "--name-only", "origin/fleet/status")

    say("Look around, then stop it")
    print(f"  cd {clone}")
    print(f"  export KUBECONFIG={lab.kubeconfig} PATH={Path(sys.executable).parent}:$PATH")
    print("  fleet status                       # live")
    print("  fleet lab shell --name demo kubectl --context eu-1 get etcd --all-namespaces")
    print("  $EDITOR stacks/coordination.py     # then fleet preview, git commit, fleet sync")
    print("  fleet lab down --name demo         # removes everything, this repository too")


def repository(lab: Lab) -> Path:
    """A clone with the example fleet committed and pushed. It is in the lab's directory and goes with it."""
    remote, clone = lab.directory / "remote.git", lab.directory / "repository"
    if not clone.exists():
        shutil.rmtree(remote, ignore_errors=True)
        git(lab.directory, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
        git(lab.directory, "clone", "--quiet", str(remote), str(clone))
        git(clone, "config", "user.name", "Demo")
        git(clone, "config", "user.email", "demo@example.com")
    example(clone)
    git(clone, "push", "--quiet", "origin", "HEAD:main")
    return clone


def example(clone: Path) -> None:
    """Commit the example fleet, as it stands in this project, to a clone."""
    for name in ("stacks", "clusters"):
        shutil.copytree(PROJECT / name, clone / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "fleet.toml", clone)
    git(clone, "add", "--all")
    if git(clone, "status", "--porcelain"):
        git(clone, "commit", "--quiet", "--message=The example fleet")


def say(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
    print(f"\n{bold}── {text}{plain}", flush=True)


def run(lab: Lab, directory: Path, *command: str) -> None:
    """Show a command as a person would type it, and run it."""
    print(f"$ {' '.join(command)}", flush=True)
    arguments = [sys.executable, "-m", *command] if command[0] == "fleet" else ["git", "--no-pager", *command[1:]]
    subprocess.run(arguments, cwd=directory, env=lab.environment(), check=True)


def git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
