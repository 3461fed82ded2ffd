"""Which binary each of the lab's programs is: KUBEBUILDER_ASSETS, then PATH, then the cache, then a build.

Binaries from outside are used only all together and only when their version is the lab's: a control plane of mixed
versions would test nothing that anybody runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from fleet.errors import ConfigurationError
from fleet.lab.programs.build import CONTROL_PLANE, MODULES, built
from fleet.lab.spec import KUBERNETES, minor_of

VERSIONED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


class Binaries:
    """`binaries["kubelet"]` is a path; a module is built when the first of its programs is asked for."""

    def __init__(self, kubernetes: str) -> None:
        self.kubernetes = kubernetes
        self._found: dict[str, Path] = {}
        self._own: dict[str, Path] | None = None
        self._built: dict[str, Path] = {}  # by module: each is verified once, however many programs it is

    def __getitem__(self, program: str) -> Path:
        if program not in self._found:
            self._found[program] = self._find(program)
        return self._found[program]

    def _find(self, program: str) -> Path:
        if program in CONTROL_PLANE and program in self._outside():
            return self._outside()[program]
        for module in MODULES.values():
            if program in module.programs:
                if module.name not in self._built:
                    self._built[module.name] = built(module)
                return self._built[module.name] / program
        raise KeyError(program)

    def _outside(self) -> dict[str, Path]:
        if self._own is None:
            self._own = from_assets(self.kubernetes) or from_path(self.kubernetes)
        return self._own


def from_assets(kubernetes: str) -> dict[str, Path]:
    """Those of KUBEBUILDER_ASSETS. A person set it, so what is wrong with it is said and not passed over."""
    directory = os.environ.get("KUBEBUILDER_ASSETS")
    if not directory:
        return {}
    found = {name: Path(directory) / name for name in CONTROL_PLANE if (Path(directory) / name).is_file()}
    own = minor_of(kubernetes) != minor_of(KUBERNETES)  # a version that is not built here: all must be there
    for needed in CONTROL_PLANE if own else ("etcd", "kube-apiserver"):
        if needed not in found:
            raise ConfigurationError(
                f"KUBEBUILDER_ASSETS is {directory}, but there is no {needed}",
                hint=f"put {', '.join(CONTROL_PLANE)} of Kubernetes {kubernetes} there, or unset it",
            )
    for name in VERSIONED:
        if name in found and minor(found[name]) != minor_of(kubernetes):
            raise ConfigurationError(
                f"{found[name]} is Kubernetes {minor(found[name]) or 'of an unknown version'}, not {kubernetes}",
                hint="unset KUBEBUILDER_ASSETS, or ask for that version with --kubernetes",
            )
    return found


def from_path(kubernetes: str) -> dict[str, Path]:
    """Those on PATH, if all of a control plane is there in the version that was asked for."""
    places = {name: shutil.which(name) for name in CONTROL_PLANE}
    found = {name: Path(place) for name, place in places.items() if place}
    if len(found) < len(CONTROL_PLANE) or any(minor(found[name]) != minor_of(kubernetes) for name in VERSIONED):
        return {}
    return found


def minor(binary: Path) -> str:
    """The minor version that a binary of Kubernetes says it is, as "1.36", or "" if it does not say."""
    try:
        text = subprocess.run([binary, "--version"], check=False, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r"v?(\d+\.\d+)\.\d+", text)
    return match[1] if match else ""
