"""The choice of a binary for each of the lab's programs: KUBEBUILDER_ASSETS, then PATH, then the cache, then a build.

Binaries from outside are used only all together and only when their version is the lab's: a control plane of mixed
versions would test nothing that a user runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from fleet.errors import ConfigurationError
from fleet.lab.programs.build import CONTROL_PLANE, MODULES, build_module
from fleet.lab.spec import KUBERNETES, minor_version

VERSIONED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


class Binaries:
    """The binaries of one version: `binaries["kubelet"]` is a path. A module is built when it is first needed."""

    def __init__(self, kubernetes: str) -> None:
        self.kubernetes = kubernetes
        self._paths: dict[str, Path] = {}
        self._complete_set: dict[str, Path] | None = None
        self._built: dict[str, Path] = {}  # by module: each is verified once, however many programs it is

    def __getitem__(self, program: str) -> Path:
        if program not in self._paths:
            self._paths[program] = self._find(program)
        return self._paths[program]

    def _find(self, program: str) -> Path:
        if program in CONTROL_PLANE and program in self._find_complete_set():
            return self._find_complete_set()[program]
        for module in MODULES.values():
            if program in module.programs:
                if module.name not in self._built:
                    self._built[module.name] = build_module(module)
                return self._built[module.name] / program
        raise KeyError(program)

    def _find_complete_set(self) -> dict[str, Path]:
        if self._complete_set is None:
            self._complete_set = find_in_assets(self.kubernetes) or find_on_path(self.kubernetes)
        return self._complete_set


def find_in_assets(kubernetes: str) -> dict[str, Path]:
    """Find the binaries in KUBEBUILDER_ASSETS; none if the variable is not set.

    The user set it, so a directory without the needed binaries, or with another version, raises ConfigurationError.
    """
    directory = os.environ.get("KUBEBUILDER_ASSETS")
    if not directory:
        return {}
    binaries = {name: Path(directory) / name for name in CONTROL_PLANE if (Path(directory) / name).is_file()}
    # All must be there of a version that is not built here.
    is_other_version = minor_version(kubernetes) != minor_version(KUBERNETES)
    for needed in CONTROL_PLANE if is_other_version else ("etcd", "kube-apiserver"):
        if needed not in binaries:
            raise ConfigurationError(
                f"KUBEBUILDER_ASSETS is {directory}, but there is no {needed}",
                hint=f"put {', '.join(CONTROL_PLANE)} of Kubernetes {kubernetes} there, or unset it",
            )
    for name in VERSIONED:
        if name in binaries and (version := read_minor_version(binaries[name])) != minor_version(kubernetes):
            raise ConfigurationError(
                f"{binaries[name]} is Kubernetes {version or 'of an unknown version'}, not {kubernetes}",
                hint="unset KUBEBUILDER_ASSETS, or ask for that version with --kubernetes",
            )
    return binaries


def find_on_path(kubernetes: str) -> dict[str, Path]:
    """Find the binaries on PATH; none unless all of a control plane is there in the version that the lab needs."""
    places = {name: shutil.which(name) for name in CONTROL_PLANE}
    binaries = {name: Path(place) for name, place in places.items() if place}
    if len(binaries) < len(CONTROL_PLANE):
        return {}
    if any(read_minor_version(binaries[name]) != minor_version(kubernetes) for name in VERSIONED):
        return {}
    return binaries


def read_minor_version(binary: Path) -> str:
    """Return the minor version that a binary of Kubernetes reports, as "1.36"; "" if it reports none."""
    try:
        text = subprocess.run([binary, "--version"], check=False, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r"v?(\d+\.\d+)\.\d+", text)
    return match[1] if match else ""
