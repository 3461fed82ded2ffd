"""Signatures of SSH and OpenPGP keys on real commits, checked against keys outside of the repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, PolicyError
from fleet.git.repository import GitRepository
from fleet.git.signature import verify_signature
from fleet.testing.git import git
from tests.git.repositories import bare, clone


def ssh_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def allowed(path: Path, *keys: tuple[str, Path]) -> Path:
    path.write_text("".join(f"{who} {key.with_suffix('.pub').read_text()}" for who, key in keys))
    return path


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository.find(clone(tmp_path / "clone", bare(tmp_path / "bare.git")))


def signed(repository: GitRepository, *settings: str) -> None:
    options = [word for one in settings for word in ("-c", one)]
    git(repository.root, *options, "commit", "--quiet", "--allow-empty", "-S", "--message", "signed")


def test_a_commit_is_signed_by_one_of_the_signers_or_refused(repository: GitRepository, tmp_path: Path) -> None:
    ada, eve = ssh_key(tmp_path / "ada"), ssh_key(tmp_path / "eve")
    signers = allowed(tmp_path / "signers", ("ada@example.com", ada))
    with pytest.raises(PolicyError, match="is not signed"):
        verify_signature(repository, repository.resolve(), signers)
    signed(repository, "gpg.format=ssh", f"user.signingkey={eve}")
    with pytest.raises(PolicyError, match="signed by nobody"):
        verify_signature(repository, repository.resolve(), signers)
    git(repository.root, "config", "gpg.ssh.allowedSignersFile", str(allowed(tmp_path / "own", ("eve", eve))))
    with pytest.raises(PolicyError, match="signed by nobody"):
        verify_signature(repository, repository.resolve(), signers)
    signed(repository, "gpg.format=ssh", f"user.signingkey={ada}")
    assert verify_signature(repository, repository.resolve(), signers) == "ada@example.com"
    changed = git(repository.root, "cat-file", "commit", "HEAD").replace("\n\nsigned", "\n\nforged")
    (tmp_path / "forged").write_text(changed)
    forged = git(repository.root, "hash-object", "-t", "commit", "-w", str(tmp_path / "forged")).strip()
    with pytest.raises(PolicyError, match="signed by nobody"):
        verify_signature(repository, repository.resolve(forged), signers)


def test_signers_in_the_repository_are_refused(repository: GitRepository) -> None:
    inside = repository.root / "signers"
    inside.write_text("")
    with pytest.raises(ConfigurationError, match="are in the repository"):
        verify_signature(repository, repository.resolve(), inside)


@pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed")
def test_openpgp_keys_are_those_of_the_file_alone(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    files = {}
    try:
        for name in ("ada", "eve"):
            address = f"{name}@example.com"
            making = [
                "gpg",
                "--batch",
                "--quiet",
                "--passphrase",
                "",
                "--quick-generate-key",
                address,
                "ed25519",
                "sign",
            ]
            subprocess.run(making, check=True, capture_output=True)
            exported = subprocess.run(["gpg", "--armor", "--export", address], check=True, capture_output=True).stdout
            files[name] = tmp_path / f"{name}.asc"
            files[name].write_bytes(exported)
        signed(repository, "gpg.format=openpgp", "user.signingkey=ada@example.com")
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], check=False)
    assert verify_signature(repository, repository.resolve(), files["ada"]) == "ada@example.com"
    with pytest.raises(PolicyError, match="signed by nobody"):
        verify_signature(repository, repository.resolve(), files["eve"])
