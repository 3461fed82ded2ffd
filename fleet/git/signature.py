"""Who signed a commit, judged by keys that do not come from the repository.

Whoever can push can also push a list of signers, so that list is a file of the machine: lines of `allowed_signers` for
SSH, or armoured public keys for OpenPGP. A signature of a commit covers its files and its whole history. git itself
checks it; the keys that a person trusts otherwise have no say.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.errors import ConfigurationError, PolicyError
from fleet.git.repository import Commit, Repository

_ARMOUR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_SSH = re.compile(r'Good "git" signature for (?P<who>.+?) with \S+ key (?P<key>\S+)')
_PGP = re.compile(r"^\[GNUPG:\] GOODSIG \S+ (?P<who>.+)$", re.MULTILINE)
_BAD = re.compile(r"^\[GNUPG:\] (EXPKEYSIG|REVKEYSIG|EXPSIG) ", re.MULTILINE)
_HINT = "sign it with a key of the signers: git commit -S"


def signed_by(repository: Repository, commit: Commit, signers: Path) -> str:
    """The signer's name; PolicyError when it is not signed, or by nobody of these."""
    keys = _read(repository, signers)
    with _trusting(keys, signers) as (settings, variables):
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        said = repository.git.run(
            f"check the signature of {commit.short}",
            *options, "verify-commit", "--raw", commit.id,
            accept=(0, 1), variables=variables,
        )  # fmt: skip
    good = _PGP.search(said.stderr) if _ARMOUR in keys else _SSH.search(said.stderr)
    if said.status == 0 and good and not _BAD.search(said.stderr):
        return good["who"].strip()
    if not said.stderr.strip():
        raise PolicyError(f"{commit.short} is not signed, and only signed commits are applied", hint=_HINT)
    raise PolicyError(f"{commit.short} is signed by nobody of {signers}", hint=_HINT)


def check_outside(repository: Repository, signers: Path) -> None:
    """Refuse a file that comes with the repository itself."""
    if signers.resolve().is_relative_to(repository.root.resolve()):
        raise ConfigurationError(
            f"the signers are in the repository ({signers}), where whoever pushes can change them",
            hint="keep the file elsewhere on the machine",
        )


def _read(repository: Repository, signers: Path) -> bytes:
    check_outside(repository, signers)
    try:
        return signers.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"the signers cannot be read from {signers}: {error.strerror}") from None


@contextmanager
def _trusting(keys: bytes, signers: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Settings and variables with which git knows these keys and no others."""
    settings = {
        "gpg.program": "gpg",
        "gpg.x509.program": "false",  # nobody of the signers has such a key
        "gpg.ssh.program": "ssh-keygen",
        "gpg.ssh.allowedSignersFile": "/dev/null",
        "gpg.ssh.revocationFile": "",
        "gpg.minTrustLevel": "undefined",
    }
    with TemporaryDirectory(prefix="fleet-signers-") as home:
        if _ARMOUR in keys:
            _import(keys, home, signers)
        else:
            settings["gpg.ssh.allowedSignersFile"] = str(signers.resolve())
        yield settings, {"GNUPGHOME": home}


def _import(keys: bytes, home: str, signers: Path) -> None:
    if not shutil.which("gpg"):
        raise ConfigurationError("gpg was not found on this machine", hint="install gnupg, or use keys of SSH")
    command = ["gpg", "--homedir", home, "--batch", "--no-autostart", "--quiet", "--import"]
    done = subprocess.run(command, input=keys, capture_output=True, check=False, timeout=60)
    if done.returncode:
        raise ConfigurationError(f"{signers} has no keys that gpg can read")
