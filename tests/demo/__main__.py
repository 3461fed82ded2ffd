"""The main job, end to end: two clusters, the operator, an etcd in each from a git repository, a resize by a commit, a
member lost and replaced, and what git knows about all that.

It asks nothing, can be run again, and leaves the lab `demo` running to look around in. What it shows it also looks at:
if an etcd or the page about it is not as it says, it ends with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fleet.lab import Lab
from fleet.lab.images.bake import bake
from fleet.lab.images.recipes import find_recipes
from fleet.lab.planning import default_nodes

PROJECT = Path(__file__).parents[2]
NAME = "demo"
CLUSTERS = ["eu-1", "us-1"]
ETCD = "etcd=localhost/fleet-lab/etcd:{series}"
IMAGES = ("etcd:3.5", "fleet-operator")
PATIENCE = 180.0  # seconds for a lost member


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--name", default=NAME, help="of the lab")
    name = parser.parse_args().name
    say("Two clusters, each with an API server of its own and two nodes")
    with ThreadPoolExecutor(1) as pool:  # the first time, images are made while Kubernetes is compiled
        images = pool.submit(make_images) if default_nodes() == "real" else None
        lab = Lab.up(name, CLUSTERS, workers=2, say=lambda text: print(f"  {text}", file=sys.stderr))
        if images:
            images.result()
    run(lab, PROJECT, "fleet", "lab", "image", "build", "--name", name, *IMAGES)
    run(lab, PROJECT, "fleet", "lab", "status", "--name", name)

    say("A git repository with the example fleet: stacks/ and clusters/")
    clone = repository(lab)
    run(lab, clone, "git", "log", "--oneline", "--stat", "-1")

    say("The operator, in every cluster of the repository")
    run(lab, clone, "fleet", "operator", "install", "--engine-image", ETCD)
    run(lab, clone, "fleet", "operator", "status")

    say("What would change in every cluster")
    run(lab, clone, "fleet", "preview")

    say("Apply the commit to every cluster, and wait until all of it is healthy")
    run(lab, clone, "fleet", "sync")
    page(lab, clone, 3)
    for cluster in CLUSTERS:
        etcdctl(lab, clone, cluster, "endpoint", "health", "--cluster")
        expect_members(lab, clone, cluster, 3)

    say("Five members instead of three, by a commit")
    resize(clone, 5)
    run(lab, clone, "git", "diff", "HEAD~1", "--unified=0", "--", "stacks")
    run(lab, clone, "fleet", "preview")
    run(lab, clone, "fleet", "sync")

    say("A member and its volume are lost; the operator replaces it")
    lose_member(lab, "eu-1", "registry-1")
    for cluster in CLUSTERS:
        etcdctl(lab, clone, cluster, "member", "list", "--write-out=table")
        etcdctl(lab, clone, cluster, "endpoint", "health", "--cluster")
        expect_members(lab, clone, cluster, 5)
    run(lab, clone, "fleet", "status")
    run(lab, clone, "fleet", "sync")
    page(lab, clone, 5)

    say("Look around, then stop it")
    print(f"  cd {clone}")
    print(f"  export KUBECONFIG={lab.kubeconfig} PATH={Path(sys.executable).parent}:$PATH")
    print("  fleet status                                         # live")
    print("  fleet connect registry --cluster eu-1 -- get --prefix ''")
    print(f"  fleet lab shell --name {name} kubectl --context eu-1 describe etcd --all-namespaces")
    print("  $EDITOR stacks/coordination.py                       # then fleet preview, git commit, fleet sync")
    print(f"  {f'fleet lab down --name {name}':<52} # removes everything, this repository too")


def make_images() -> None:
    for name in IMAGES:
        for recipe in find_recipes(name):
            bake(recipe)


def page(lab: Lab, clone: Path, members: int) -> None:
    say("What git knows now: the status branch")
    run(lab, clone, "git", "fetch", "--quiet", "origin", "+refs/heads/fleet/status:refs/remotes/origin/fleet/status")
    run(lab, clone, "git", "show", "origin/fleet/status:README.md")
    told = [line for line in git(clone, "show", "origin/fleet/status:README.md").splitlines() if line.startswith("|")]
    for cluster in CLUSTERS:
        rows = [line for line in told if cluster in line]
        expect(rows and all("Healthy" in row for row in rows), f"the page says that {cluster} is healthy: {rows}")
        expect(any(f"({members}/{members})" in row for row in rows), f"and has {members} members: {rows}")


def expect_members(lab: Lab, clone: Path, cluster: str, count: int) -> None:
    """By etcd's own word, over TLS: so many members, none of them a learner, and each of them healthy."""
    found = answered(lab, clone, cluster, "member", "list")["members"]
    voters = [one["name"] for one in found if not one.get("isLearner")]
    expect(len(found) == len(voters) == count, f"{cluster} has {count} members: {voters}")
    healthy = [
        one["endpoint"] for one in answered(lab, clone, cluster, "endpoint", "health", "--cluster") if one["health"]
    ]
    expect(len(healthy) == count, f"all members in {cluster} are healthy: {healthy}")
    expect(all(one.startswith("https://") for one in healthy), f"with TLS: {healthy}")


def answered(lab: Lab, clone: Path, cluster: str, *arguments: str) -> Any:
    command = ["connect", "registry", "--cluster", cluster, "--", *arguments, "--write-out=json"]
    done = subprocess.run(
        [sys.executable, "-m", "fleet", *command], cwd=clone, env=lab.environment(), check=True, capture_output=True
    )
    return json.loads(done.stdout)


def expect(so: object, what: str) -> None:
    if not so:
        sys.exit(f"not so: {what}")


def etcdctl(lab: Lab, clone: Path, cluster: str, *arguments: str) -> None:
    """With TLS, through the app's own connection."""
    run(lab, clone, "fleet", "connect", "registry", "--cluster", cluster, "--", *arguments)


def resize(clone: Path, members: int) -> None:
    stack = clone / "stacks" / "coordination.py"
    stack.write_text(re.sub(r"members=\d+", f"members={members}", stack.read_text()))
    git(clone, "commit", "--quiet", "--all", f"--message=The registry has {members} members")
    git(clone, "push", "--quiet", "origin", "HEAD:main")


def lose_member(lab: Lab, cluster: str, pod: str) -> None:
    """Its claim and its pod are deleted, and with them its data; then another member has its name and a new volume."""
    there = ("--context", cluster, "--namespace", "coordination")

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(kubectl(lab, *there, "get", "etcd", "registry", "--output=json"))["status"]
        return found

    before = member(status(), pod)
    show(lab, *there, "delete", "pvc", f"data-{pod}", "--wait=false")
    show(lab, *there, "delete", "pod", pod, "--wait=false")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = status()
        if found["health"] == "Healthy" and member(found, pod) not in ("", before):
            return show(lab, *there, "get", "etcd,pod")
        time.sleep(1)
    sys.exit(f"{pod} was not replaced within {PATIENCE:.0f} s: {found.get('message')}")


def member(status: dict[str, Any], pod: str) -> str:
    """What etcd itself calls it; "" while it is not there."""
    return next((one["id"] for one in status["members"] if one["name"] == pod and one.get("id")), "")


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


def show(lab: Lab, *arguments: str) -> None:
    print(f"$ kubectl {' '.join(arguments)}\n{kubectl(lab, *arguments).rstrip()}", flush=True)


def kubectl(lab: Lab, *arguments: str) -> str:
    command = ["kubectl", *arguments]
    return subprocess.run(command, env=lab.environment(), check=True, capture_output=True, text=True).stdout


def git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
