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

Secrets = Mapping[str, Mapping[str, str]]


def run_pod(
    template: dict[str, Any],
    programs: Programs,
    replaced: Mapping[str, str | Path],
    *,
    until: str = "",
    secrets: Secrets | None = None,
) -> dict[str, str]:
    """What each container said, by name. `until`: end after that container, as if the pod was killed then."""
    said = {}
    spec = template["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        done = run_container(container, programs, replaced, secrets)
        assert done.returncode == 0, f"{container['name']}: {done.stderr or done.stdout}"
        said[container["name"]] = done.stdout
        if container["name"] == until:
            break
    return said


def run_container(
    container: dict[str, Any],
    programs: Programs,
    replaced: Mapping[str, str | Path],
    secrets: Secrets | None = None,
) -> subprocess.CompletedProcess[str]:
    program, *arguments = container["command"]
    for old, new in replaced.items():
        arguments = [argument.replace(old, str(new)) for argument in arguments]
    own = programs.directory / program
    environment = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    environment |= _from_secrets(container, secrets or {})
    return subprocess.run(
        [sys.executable if program == "python3" else str(own), *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
    )


def _from_secrets(container: dict[str, Any], secrets: Secrets) -> dict[str, str]:
    """The variables that a kubelet would take from Secrets; a missing one that is not optional is a KeyError."""
    found = {}
    for one in container["env"]:
        if reference := one.get("valueFrom", {}).get("secretKeyRef"):
            values = secrets.get(reference["name"], {})
            if reference["key"] in values or not reference.get("optional"):
                found[one["name"]] = values[reference["key"]]
    return found
