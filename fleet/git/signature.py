"""Check of who signed a commit, by keys that do not come from the repository.

Everyone who can push can also push a list of signers, so that list is a file of the machine: lines of `allowed_signers`
for SSH, or armoured public keys for OpenPGP. A signature of a commit covers its files and its whole history. git itself
checks it; the keys that a user trusts otherwise have no say.
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
from fleet.git.repository import GitCommit, GitRepository

_ARMOUR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_SSH = re.compile(r'Good "git" signature for (?P<who>.+?) with \S+ key (?P<key>\S+)')
_PGP = re.compile(r"^\[GNUPG:\] GOODSIG \S+ (?P<who>.+)$", re.MULTILINE)
_BAD = re.compile(r"^\[GNUPG:\] (EXPKEYSIG|REVKEYSIG|EXPSIG) ", re.MULTILINE)
_HINT = "sign it with a key of the signers: git commit -S"


def verify_signature(repository: GitRepository, commit: GitCommit, signers: Path) -> str:
    """Return the signer's name; raise PolicyError when the commit is not signed by one of these signers."""
    keys = _read_signers(repository, signers)
    with _trust_only(keys, signers) as (settings, variables):
        options = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
        result = repository.git.run(
            f"check the signature of {commit.short}",
            *options, "verify-commit", "--raw", commit.id,
            accept=(0, 1), variables=variables,
        )  # fmt: skip
    signature = _PGP.search(result.stderr) if _ARMOUR in keys else _SSH.search(result.stderr)
    if result.status == 0 and signature and not _BAD.search(result.stderr):
        return signature["who"].strip()
    if not result.stderr.strip():
        raise PolicyError(f"{commit.short} is not signed, and only signed commits are applied", hint=_HINT)
    raise PolicyError(f"{commit.short} is signed by nobody of {signers}", hint=_HINT)


def check_outside(repository: GitRepository, signers: Path) -> None:
    """Refuse a file that comes with the repository itself."""
    if signers.resolve().is_relative_to(repository.root.resolve()):
        raise ConfigurationError(
            f"the signers are in the repository ({signers}), where whoever pushes can change them",
            hint="keep the file elsewhere on the machine",
        )


def _read_signers(repository: GitRepository, signers: Path) -> bytes:
    check_outside(repository, signers)
    try:
        return signers.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"the signers cannot be read from {signers}: {error.strerror}") from None


@contextmanager
def _trust_only(keys: bytes, signers: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield settings and variables with which git knows these keys and no others."""
    settings = {
        "gpg.program": "gpg",
        "gpg.x509.program": "false",  # no signer has such a key
        "gpg.ssh.program": "ssh-keygen",
        "gpg.ssh.allowedSignersFile": "/dev/null",
        "gpg.ssh.revocationFile": "",
        "gpg.minTrustLevel": "undefined",
    }
    with TemporaryDirectory(prefix="fleet-signers-") as home:
        if _ARMOUR in keys:
            _import_keys(keys, home, signers)
        else:
            settings["gpg.ssh.allowedSignersFile"] = str(signers.resolve())
        yield settings, {"GNUPGHOME": home}


def _import_keys(keys: bytes, home: str, signers: Path) -> None:
    if not shutil.which("gpg"):
        raise ConfigurationError("gpg was not found on this machine", hint="install gnupg, or use keys of SSH")
    command = ["gpg", "--homedir", home, "--batch", "--no-autostart", "--quiet", "--import"]
    result = subprocess.run(command, input=keys, capture_output=True, check=False, timeout=60)
    if result.returncode:
        raise ConfigurationError(f"{signers} has no keys that gpg can read")
