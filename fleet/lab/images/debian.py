"""Root file systems from Debian's packages, as layers: a release's essential system, and what packages add to it.

mmdebstrap installs them with the machine's own apt settings. The result depends on nothing but the archive's content:
no times, and the account of an engine has the same number in every release.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab.images import store
from fleet.lab.images.archive import write_difference
from fleet.lab.images.recipes import OWNER, Recipe
from fleet.lab.programs import packages

LEAN = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/lintian/*")
# What installing leaves behind and no container needs.
LITTER = ("/var/cache/*/*", "/var/log/*", "/var/lib/apt/*", "/var/lib/*/*-old", "/etc/*-")


def build_layers(recipe: Recipe, work: Path) -> list[Path]:
    """Build the layers of a recipe's release and packages; `work` is a directory for temporary files."""
    below = _essential_layer(recipe.suite, work)
    return [below, _packages_layer(recipe, below, work)]


def _essential_layer(suite: str, work: Path) -> Path:
    """Return the layer of a release's essential system; it is kept in the cache."""
    key, layer = _layer_key(suite, f"{LEAN}"), work / "essential.tar"
    if cached := store.find_layer(key):
        return cached
    _install(layer, suite)
    return store.keep_layer(key, layer)


def _packages_layer(recipe: Recipe, below: Path, work: Path) -> Path:
    """Return the layer that a recipe's packages add to the essential system.

    It is kept in the cache if another layer comes on top: that image may be made often, or two images share this layer.
    """
    hooks, left_out = [], [*LITTER, *recipe.without]
    if recipe.account:
        hooks.append(_account_hook(recipe.account, recipe.owned[0]))
        left_out += [f"{path}/*" for path in recipe.owned]  # such as a database that a package made for itself
    layer, shared = work / "packages.tar", bool(recipe.wheel or recipe.jars)
    key = _layer_key(recipe.suite, f"{recipe.packages} {hooks} {left_out} {LEAN}")
    if shared and (cached := store.find_layer(key)):
        return cached
    unpack = f'tar -C "$1" -xf {shlex.quote(str(below))}'
    manuals = 'mkdir -p "$1/usr/share/man/man1"'  # update-alternatives of some packages fails without
    _install(work / "whole.tar", recipe.suite, recipe.packages, hooks=[unpack, manuals, *hooks])
    write_difference(below, work / "whole.tar", layer, without=left_out)
    return store.keep_layer(key, layer) if shared else layer


def _layer_key(suite: str, content: str) -> str:
    return f"{suite}-{hashlib.sha256(f'{suite} {content}'.encode()).hexdigest()[:12]}"


def _install(target: Path, suite: str, names: tuple[str, ...] = (), *, hooks: Sequence[str] = ()) -> None:
    """Install the essential system, or packages into what `hooks` (lines of shell, $1 is the root) put there."""
    packages.require_programs(packages.IMAGES, "images")
    command = ["mmdebstrap", "--variant=custom" if names else "--variant=essential", "--skip=output/dev"]
    command += [f"--include={','.join(names)}"] if names else []
    command += ["--dpkgopt=force-unsafe-io"]  # what a crash leaves is thrown away whole
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEAN]
    command += [f"--setup-hook={hook}" for hook in hooks]
    command += [suite, str(target), *_mirror_option(suite)]
    process = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "0"},
        stdin=subprocess.DEVNULL,
    )
    if process.returncode:
        lines = [
            line for line in process.stderr.splitlines() if re.match(r"[EW]:|dpkg: |update-alternatives: ", line)
        ] or process.stderr.splitlines()
        raise ResourceError(
            f"Debian {suite} with {', '.join(names) or 'nothing more'} could not be installed:\n    "
            + "\n    ".join(lines[-10:]),
            hint="Debian's package archive must be reachable with the machine's apt settings",
        )


def _account_hook(name: str, home: str) -> str:
    """Return a hook that makes an engine's account; packages that make one for themselves take it."""
    user, group = f"{name}:x:{OWNER}:{OWNER}::{home}:/bin/sh", f"{name}:x:{OWNER}:"
    return f'echo {user} >> "$1/etc/passwd" && echo {group} >> "$1/etc/group"'


def _mirror_option(suite: str) -> list[str]:
    """Return the archive that the machine's own apt uses, as an argument of mmdebstrap.

    It is empty on another system; mmdebstrap then uses its default.
    """
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(LABEL)", "Created-By: Packages"]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    for line in process.stdout.splitlines():
        uri, _, label = line.partition(" ")
        if label == "Debian":
            return [f"deb {uri} {suite} main"]
    return []
