"""A repository that is followed: where it is, which branch counts, and the copy of it that only fleet uses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fleet.errors import ConfigurationError
from fleet.git import names
from fleet.git.mirror import Mirror
from fleet.git.repository import Repository as Git
from fleet.printable import without_credentials

USUAL_BRANCH = "main"


@dataclass(frozen=True, slots=True)
class Origin:
    url: str
    branch: str = USUAL_BRANCH

    @classmethod
    def parse(cls, text: str) -> Origin:
        """`URL` or `URL#branch`, as a person gives it."""
        url, _, branch = text.partition("#")
        address = names.address(url, by_person=True)
        names.branch(branch or USUAL_BRANCH)
        if address.protocol == "file" and "://" not in url:
            url = str(Path(url).resolve())  # `../fleet.git` is not the same one elsewhere
        return cls(url, branch or USUAL_BRANCH)

    @classmethod
    def of_clone(cls, clone: Git, remote: str, branch: str) -> Origin:
        """What a person's clone has for its remote."""
        url = clone.remotes().get(remote)
        if url is None:
            raise ConfigurationError(
                f"this clone has no remote {remote!r}, and what is served comes from one",
                hint="name a repository: fleet serve https://git.example.com/team/fleet.git",
            )
        address = names.address(url, by_person=True)
        if address.protocol == "file" and "://" not in url:
            url = str((clone.root / url).resolve())
        return cls(url, branch)

    def __str__(self) -> str:
        return f"{self.address}#{self.branch}"

    @property
    def address(self) -> str:
        """Where it is, as it may be shown and named in flags."""
        return without_credentials(self.url)

    def mirror(self, cache: Path) -> Mirror:
        return Mirror.of(self.url, cache, by_person=True)

    @property
    def ref(self) -> str:
        return names.branch(self.branch)

    @property
    def refspec(self) -> str:
        return f"+{self.ref}:{self.ref}"
