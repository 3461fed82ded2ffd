"""Which version of Kubernetes a lab has: the one that is built here, or another that a person brings."""

from __future__ import annotations

import os
import re

from fleet.errors import ConfigurationError
from fleet.lab.spec import KUBERNETES


def minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def resolve(wanted: str | None) -> str:
    """The version that a lab gets when a person asks for this one."""
    if wanted in (None, KUBERNETES, minor_of(KUBERNETES)):
        return KUBERNETES
    # Whether the binaries there are of this version is checked when they are used.
    if os.environ.get("KUBEBUILDER_ASSETS") and re.fullmatch(r"1\.\d+(\.\d+)?", wanted):
        return wanted
    raise ConfigurationError(
        f"Kubernetes {wanted} is not among the versions that the lab builds",
        field="--kubernetes",
        hint=f"use {KUBERNETES}, or point KUBEBUILDER_ASSETS at a directory with binaries of {wanted}",
    )
