"""What `make test` runs: every test in parallel; a few that failed are run once more, alone.

Real processes on a shared machine are late at times for reasons that no test can know. CPython's suite does so too: a
test that fails again fails the run, one that passes alone is named at the end for somebody to look at. More than a few
failures are never the machine's, and nothing is run again then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"  # where pytest keeps it for --last-failed
# Tests wait about as long as they work: three processes on two cores, each with clusters of its own, a file's tests in
# one of them. `-n` among the arguments says another number.
CORES = len(os.sched_getaffinity(0))
WORKERS = min(4, CORES + CORES // 2)
# Files come in the order of tests/conftest.py and not of how many tests they have, which is the opposite of how long.
PARALLEL = ("-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder")
# Bytecode that is kept is not compiled anew by each of thousands of processes, nor test modules by each worker.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
FEW = 3
TESTS_FAILED = 1  # pytest's exit code for that; any other means that it could not run them all


def main(arguments: list[str]) -> int:
    code = _pytest("--cache-clear", *PARALLEL, *arguments)
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if code != TESTS_FAILED or not 0 < len(failed) <= FEW:
        return code
    print(f"\nonce more, alone: {len(failed)} that failed", flush=True)
    again = _pytest("-n", "0", *(one for one in arguments if one.startswith("--")), *failed)
    if again == 0:
        print("\nfailed beside the others and passed alone; they need a look:", *failed, sep="\n  ", flush=True)
    return again


def _pytest(*arguments: str) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
