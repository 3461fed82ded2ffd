"""A branch that a program writes grows for ever; this cuts its history off, and leaves its files as they are.

The newest files become a commit without parents, swapped in only if nobody wrote meanwhile. Whoever wrote finds the cut
branch at its next try: it reads the tip before it writes.
"""

from __future__ import annotations

from fleet.git.names import Address
from fleet.git.publication import FLEET, Edit, Identity, fetched, swapped
from fleet.git.repository import Repository

MOST = 2000  # commits


def trim(
    repository: Repository, remote: Address | None, ref: str, *, most: int = MOST, identity: Identity = FLEET
) -> bool:
    """Cut it if it has more than `most` commits. False: it has not, or somebody else was faster."""
    with fetched(repository, remote, [ref]) as tips:
        tip = tips[ref]
    if tip is None:
        return False
    git, what = repository.git, f"shorten {ref}"
    if int(git.run(what, "rev-list", "--count", f"--max-count={most + 1}", tip.commit).text) <= most:
        return False
    message = f"As of {tip.commit[:12]}; what was before it is cut off\n"
    commit = git.run(
        what, "commit-tree", tip.tree, "-F", "-", stdin=message.encode(), variables=identity.variables
    ).text
    return swapped(repository, remote, Edit(ref, message, lambda files: {}), tip.commit, commit) == "done"
