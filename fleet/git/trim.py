"""A branch that a program writes grows for ever; this cuts its history off, and leaves its files as they are.

The newest files become a commit without parents, swapped in only if nobody wrote meanwhile. Whoever wrote finds the cut
branch at its next try: it reads the tip before it writes.
"""

from __future__ import annotations

from fleet.git.names import Address
from fleet.git.publication import FLEET, Edit, Identity, _Proposal, _push, _update, fetched
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
    who = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", identity.name), ("EMAIL", identity.email))
    }
    message = f"As of {tip.commit[:12]}; what was before it is cut off\n"
    commit = git.run(what, "commit-tree", tip.tree, "-F", "-", stdin=message.encode(), variables=who).text
    swap = _push if remote else _update
    proposal = _Proposal(Edit(ref, message, lambda files: {}), tip.commit, commit)
    return swap(repository, remote, [proposal])[ref] == "done"
