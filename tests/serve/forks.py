"""A repository whose pull requests come from strangers: heads that attack, and the task of previewing one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from fleet.evaluate.pool import Pool
from fleet.forge.forge import PullRequest
from fleet.git.repository import Mirror
from fleet.preview.comment import PreviewRequest
from fleet.serve.cluster_secrets import ClusterReach
from fleet.serve.commits import EvaluatedCommit, FollowedRepository, evaluate_commit
from fleet.serve.report.preview_process import PreviewTask, write_preview
from fleet.testing.git import GitRemote, git

STACK = """
import fleet


@fleet.stack(clusters=["eu"], name={name!r})
def stack(cluster: fleet.Cluster) -> None:
    about, data = {{"name": "prices"}}, {{"a": {value!r}}}
    fleet.Manifest({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}})
"""
FILES = {
    "clusters/all.py": 'import fleet\n\nfleet.Cluster("eu")\n',
    "stacks/shop.py": STACK.format(name="shop", value="1"),
}
WITHOUT_CLUSTERS = {"clusters/README": "", "stacks/README": ""}
SECRETS = """
import fleet


@fleet.stack(clusters=["eu"])
def secrets(cluster: fleet.Cluster) -> None:
    values = {f"k{n}": f"value-{n * 7919:09}" for n in range(20_000)}
    about = {"name": "s"}
    fleet.Manifest({"apiVersion": "v1", "kind": "Secret", "metadata": about, "stringData": values})
    fleet.export("text", "no secret at all, " * 110_000)
"""
NAMES = """
import fleet


def made(number: int) -> None:
    def declare(cluster: fleet.Cluster) -> None:
        fleet.output(f"a-stack-that-nobody-ever-wrote-{number * 7919}", "x")

    fleet.stack(clusters=["eu"], name=f"a-stack-that-somebody-wrote-{number * 104729}")(declare)


for number in range(1_000):
    made(number)
"""
LOOP = "import time\n\nwhile True:\n    time.sleep(0.01)\n"
EATER = """
import fleet


@fleet.stack(clusters=["eu"], name="eater-{number}")
def stack(cluster: fleet.Cluster) -> None:
    fleet.export("x", "x" * 3_700_000)
"""
DOTS = "[fleet]\na" + ".a" * 30_000 + " = 1\n"
# What each head has; each took more than 90 s of the service itself, or some gigabytes.
ATTACKS: Mapping[str, Mapping[str, str]] = {
    "secrets and exports": {"stacks/secrets.py": SECRETS},
    "unknown names": {"stacks/names.py": NAMES},
    "dotted keys": {"fleet.toml": DOTS},
    "long answers": {f"stacks/eater_{n}.py": EATER.format(number=n) for n in range(5)},
}
# What each leads to, in the status or the comment.
OUTCOMES: Mapping[str, str] = {
    "secrets and exports": "2 to create",
    "unknown names": "1000 problems",
    "dotted keys": "fleet.toml would be wrong after the merge",
    "long answers": "all files together answered more than",
}
LOOPS = {f"stacks/loop_{n}.py": LOOP for n in range(30)}  # of which each is given up after 30 s


@dataclass
class Fork:
    directory: Path
    remote: GitRemote
    root: Path
    mirror: Mirror
    base: EvaluatedCommit
    evaluation: IO[bytes] = field(repr=False)

    @classmethod
    def make(cls, directory: Path, settings: str = "", files: Mapping[str, str] = FILES) -> Fork:
        remote = GitRemote.make(directory / "remote.git")
        root = remote.clone(directory / "clone")
        settings = f'[fleet]\nname = "shop"\n[limits]\nresult = "4Mi"\n{settings}'
        for name, text in {"fleet.toml": settings, **files}.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        git(root, "add", ".")
        git(root, "commit", "--quiet", "--message", "a fleet")
        git(root, "push", "--quiet", "origin", "HEAD:main")
        origin = FollowedRepository(str(remote.path))
        mirror = origin.mirror(directory / "cache")
        mirror.fetch()
        with Pool() as pool:
            base = evaluate_commit(origin, mirror, git(root, "rev-parse", "HEAD").strip(), None, pool)
        return cls(directory, remote, root, mirror, base, write_preview(base.evaluation))

    def head(self, files: Mapping[str, str]) -> str:
        """Commit the files on a branch of their own, which the mirror then has; return the commit."""
        git(self.root, "switch", "--quiet", "--detach", "main")
        for name, text in files.items():
            (self.root / name).write_text(text)
        git(self.root, "add", ".")
        git(self.root, "commit", "--quiet", "--message", "a change")
        head = git(self.root, "rev-parse", "HEAD").strip()
        git(self.root, "push", "--quiet", "origin", f"{head}:refs/heads/b-{head[:12]}")
        self.mirror.fetch()
        return head

    def task(self, head: str, *, page: str = "") -> PreviewTask:
        """As the service gives it for a pull request from a fork."""
        asked = PullRequest(1, "", "stranger", "", "main", "", "change", head, fork=True)
        files = replace(self.base.files, remembered=None)
        return PreviewTask(PreviewRequest(asked), files, self.evaluation.fileno(), ClusterReach(None), page, 60_000, 1)
