"""Runs a pod's containers as processes of this machine, one after the other, with its paths and programs replaced.

So a test of a manifest is a test of the very command lines that a kubelet would run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.operator.etcd.processes import Programs


def run_pod(
    template: dict[str, Any], programs: Programs, replaced: Mapping[str, str | Path], *, until: str = ""
) -> dict[str, str]:
    """What each container said, by name. `until`: end after that container, as if the pod was killed then."""
    said = {}
    spec = template["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        done = run_container(container, programs, replaced)
        assert done.returncode == 0, f"{container['name']}: {done.stderr or done.stdout}"
        said[container["name"]] = done.stdout
        if container["name"] == until:
            break
    return said


def run_container(
    container: dict[str, Any], programs: Programs, replaced: Mapping[str, str | Path]
) -> subprocess.CompletedProcess[str]:
    program, *arguments = container["command"]
    for old, new in replaced.items():
        arguments = [argument.replace(old, str(new)) for argument in arguments]
    own = programs.directory / program
    environment = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    return subprocess.run(
        [sys.executable if program == "python3" else str(own), *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
    )
