"""How many watchers of files a user may have: Kubernetes' programs take fifteen a cluster and seven a real node.

Many systems allow 128. Past that, kubelets and containerd come up without half of themselves, and say "too many open
files", which sends people to the wrong limit. Real nodes need root anyway, so it is raised, as a system that is meant
for containers would have it; a value that somebody set higher stays.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH = 1024


def allow_enough(limit: Path = LIMIT) -> None:
    with suppress(OSError, ValueError):  # where it may not be, nodes say so when they run into it
        if int(limit.read_text()) < ENOUGH:
            limit.write_text(str(ENOUGH))
