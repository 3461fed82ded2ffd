"""The history that a shallow clone was made without, fetched when a decision needs it.

CI checks out one commit and nothing before it. What would be decided from that is not known: the rest is fetched, into
the same clone, because its own configuration is often all that gives access. No name, file or index changes.
"""

from __future__ import annotations

from dataclasses import replace

from fleet.errors import ConfigurationError, FleetError
from fleet.git import names
from fleet.git.names import Address
from fleet.git.repository import Repository

HINT = "git fetch --unshallow; in CI, check out the whole history (fetch-depth: 0, GIT_DEPTH: 0)"


def with_history(repository: Repository, remote: Address | None, branch: str) -> Repository:
    """The clone with all that the remote's branch goes back to; ConfigurationError when that cannot be had."""
    if not repository.shallow:
        return repository
    if remote is None:
        raise ConfigurationError("this clone is shallow, and has no remote to fetch its history from", hint=HINT)
    try:
        repository.git.run(
            f"fetch the history of {branch} from {remote}",
            "fetch", "--quiet", "--unshallow", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--no-auto-maintenance", "--end-of-options", remote.url, names.branch(branch),
            protocol=remote.protocol,
        )  # fmt: skip
    except FleetError as problem:
        raise ConfigurationError(
            f"this clone is shallow, and its history is needed: {problem.message}", hint=HINT
        ) from problem
    asked = repository.git.run("look at the clone", "rev-parse", "--is-shallow-repository")
    return replace(repository, shallow=asked.text == "true")
