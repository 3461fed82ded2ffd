"""Whether a member's data is lost for certain, by its last words. What is not certain is no reason to act. Pure.

Each engine has words for data that is of no use. That data could not be got at is said by the system, in words that are
the same for all: then it may be as good as ever, whatever else is said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fleet.kit.observe.observation import Observation
from fleet.kit.observe.world import complaints, container, is_crashing, is_leaving, last_words
from fleet.text import quote_output

OUT_OF_REACH = re.compile(
    r"no space left|quota exceeded|permission denied|operation not permitted|input/output error|already locked|"
    r"too many open files|read-only file system|temporarily unavailable|device or resource busy|"
    r"cannot allocate memory|out of memory|file too large|stale (nfs )?file handle|not connected|"
    r"structure needs cleaning|no such device|interrupted system call|connection timed out",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LastWords:
    """What an engine says when it ends for what is in its volume."""

    unusable: re.Pattern[str]  # its data is of no use; believed of a member that has started again and again
    certain: re.Pattern[str]  # so certainly that it needs no second try
    panic: re.Pattern[str] | None = None  # the beginning of a panic so long that its words were cut off
    panic_words: str = ""  # what such a panic says


def find_lost_data(observation: Observation[Any], pod: str, words: LastWords) -> str | None:
    """Say why the member of a pod does not start from its data, in the engine's words; None while there is any doubt.

    A member that answers, runs or is on its way out has none.
    """
    found, name = observation.world.pod(pod), observation.role.container
    if found is None or is_leaving(found) or pod in observation.states:
        return None
    if "running" in container(found, name).get("state", {}):
        return None
    log = last_words(found, name)
    has_panicked = words.panic is not None and words.panic.search(log)
    complaint = complaints(log) or (words.panic_words if has_panicked else "")
    is_unusable = words.unusable.search(complaint) and not OUT_OF_REACH.search(log)
    if words.certain.search(complaint) or (is_crashing(found, name) and is_unusable):
        return f"it does not start: {quote_output(complaint)}"
    return None
