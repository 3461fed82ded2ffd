"""What came of a soak, as a page of the documentation."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass

from tests.soak.soak import Soak

ABOUT = """# Soak

`fleet serve` under everything at once, on two real API servers and real git. A seed draws what happens: commits
(changes, additions, renames with `aliases`, removals, reverts, changed drift policies), commits that must be
refused (a stack that raises, half a stack gone, no stacks, rewritten history pushed by force), the service killed
with SIGKILL (at any moment, or right before or after its n-th write to a cluster), in some episodes two replicas
that share a Lease; API servers that stand still (SIGSTOP), that are killed, that break connections and lose
answers, answer 500 and 403, give empty lists, are slow, or tell the time of Leases an hour or 40 s wrong; Leases
left behind by somebody on another machine; and strangers, who put fields and labels of theirs into objects of ours,
change fields of ours, delete objects of ours, and have objects of their own in our namespaces.

After each episode all that is wrong is undone, and when everything came to rest it has to be so:

- every object that git wants is there once, with what git says, in both clusters, and no other of ours;
- every record of the status branch is `Synced` at the newest commit, with the health that the app's operator told
  last;
- objects of strangers have the UID and the version that the stranger's last write gave them, and their fields in
  our objects are there;
- what git wanted all the time has the UID it had before, and the audit log has no deletion by us but of what git
  took away;
- the service took none of the commits that raise, have no stacks or have another past, by its own log in all its
  lives.

At the end, what `fleet render` prints for the last commit is compared with the clusters field by field, and no
process is left over. `make soak` takes an hour, `make test` has a short form; `python -m tests.soak --seed N
--episodes A,B` is the same steps again.
"""


@dataclass(frozen=True, slots=True)
class Told:
    soak: Soak
    seed: int
    episodes: str  # killing, lasting
    seconds: float
    day: str
    machine: str
    left: int  # processes


def page(told: Told) -> str:
    soak, counts = told.soak, told.soak.world.counts
    load = os.getloadavg()[2]
    life = soak.lives[-1] if soak.lives else None
    rows = [
        ("time", f"{told.seconds / 60:.0f} min, {soak.steps} steps"),
        ("commits", f"{soak.world.repository.commits}, of which {counts['bad']} must not be applied: none was; "
                    f"{counts['refused']} of these were seen before the next one came, and refused in words"),
        ("kills of the service", f"{counts['kill']}, {counts['killed at a write']} of them at a chosen write"),
        *((f"API server {word}", str(counts[word])) for word in TROUBLES if counts[word]),
        ("Leases left behind by others", str(counts["squat"])),
        ("deeds of strangers", str(counts["meddle"] + counts["own"])),
        ("foreign fields looked for, and found", str(soak.kept)),
        ("reports of health by the operator", str(counts["ail"])),
        ("objects that fleet deleted", f"{counts['objects deleted']}, all of them taken away by git"),
        ("rests", f"{len(soak.rests)}, each as git says; {statistics.median(soak.rests):.1f} s in the middle, "
                  f"{max(soak.rests):.1f} s at most"),
        ("memory of the service in its longest life", str(life) if life else "not measured"),
        ("processes left over", str(told.left)),
    ]  # fmt: skip
    lines = [
        ABOUT,
        f"Last run: {told.day}, `python -m tests.soak --seed {told.seed}`, {told.machine}, load of the last 15 minutes "
        f"{load:.1f}. The same again: `python -m tests.soak --seed {told.seed} --episodes {told.episodes}`.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in rows),
    ]
    return "\n".join(lines) + "\n"


TROUBLES = ("frozen", "down", "dropping", "failing", "empty", "slow", "skewed")
