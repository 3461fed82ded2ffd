"""Options of a service: what the user who runs it decides for the whole process, and no repository can change.

Of several repositories each may have a scope: the clusters it reaches, and the token for its forge. Once one has a
scope, each must have one, so that no repository gets everything by being forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import AccessError, ConfigurationError
from fleet.evaluate.result import ClusterData
from fleet.forge import TOKEN_VARIABLE

if TYPE_CHECKING:  # processes that make previews need the scope alone
    from fleet.bundle.reports import ReportRepository
    from fleet.kube.client.client import Client


@dataclass(frozen=True, slots=True)
class RepositoryScope:
    """Scope of one repository; with no field set, it shares what the service has."""

    reach: tuple[str, ...] | None = None  # patterns of contexts and of Secrets as namespace/name; None is all
    variable: str | None = None  # the environment variable with its forge's token; "" is none, None the shared one
    variables: frozenset[str] = frozenset()  # variables with the tokens of all repositories of the service

    def check_reach(self, cluster: ClusterData) -> None:
        """Raise AccessError if this repository may not use the context or Secret that leads to the cluster."""
        reference = cluster.secret or cluster.kubeconfig_context
        if self.reach is not None and not any(fnmatchcase(reference, pattern) for pattern in self.reach):
            kind = "Secret" if cluster.secret else "context"
            raise AccessError(
                f"{cluster.name} is reached with the {kind} {reference}, which this repository may not use here",
                hint="who runs the service says so with --reach",
            )

    def environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables in which the token of its forge is looked for."""
        if self.variable is None:
            return environment
        return {TOKEN_VARIABLE: environment[self.variable]} if environment.get(self.variable) else {}

    def withheld(self, *, pushes: bool) -> frozenset[str]:
        """Return the variables that a process working for this repository must not have.

        Such a process asks no forge. Only git may need a token there, through a credential helper, where the process
        `pushes`: then it gets the repository's own token, or the shared one if the repository has none.
        """
        from fleet.forge.detect import token_variables  # noqa: PLC0415 - loads the forges

        shared, own = token_variables(), frozenset[str]()
        if pushes:
            own = frozenset(shared if self.variable is None else {self.variable})
        return self.variables.union(shared) - own


SHARED = RepositoryScope()


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of `fleet serve`, shared by its repositories except for `scope`."""

    kubeconfig: Path | None = None
    cache: Path = Path("/var/cache/fleet")
    poll: float = 30.0  # about so many seconds between two looks at a repository
    resync: float = 600.0  # seconds between two syncs of everything, whatever the watches report
    status: bool = True  # write health into git
    require_approved: bool = False  # even if fleet.toml does not ask for it
    forge: bool = False  # post commit statuses
    previews: bool = False  # of pull requests
    public_url: str = ""  # the address at which users reach this process, for pages of previews
    notify: str = ""  # where to POST changes of health to
    notify_secret: str = field(default="", repr=False)
    settle: float = 0.5
    every: float = 3.0  # seconds between two writes of health
    management: Client | None = None  # for clusters that are reached through a Secret there
    scope: RepositoryScope = SHARED  # of the one repository
    trust_kubeconfigs: bool = False  # in Secrets: they may run programs and read files here
    signers: Path | None = None  # only commits signed with one of their keys are applied
    inside: bool = False  # the only cluster is the one that this process runs in
    reports: tuple[ReportRepository, ...] = ()  # where agents report, besides the status branch
    name: str = "fleet-serve"  # of the program, in records of what it applied


def parse_scopes(urls: Iterable[str], reach: Iterable[str], tokens: Iterable[str]) -> dict[str, RepositoryScope]:
    """Return the scope of each repository, from texts such as URL=PATTERN,PATTERN and URL=VARIABLE."""
    addresses = tuple(urls)
    patterns, variables = _parse_by_url(addresses, reach, "--reach"), _parse_by_url(addresses, tokens, "--forge-token")
    for url in addresses if patterns else ():
        if url not in patterns:
            raise ConfigurationError(
                f"--reach says nothing about {url}", hint=f"say what it may use, too: --reach '{url}=*' is all"
            )
    return {
        url: RepositoryScope(
            tuple(patterns[url].split(",")) if patterns else None,
            variables.get(url, "") if variables else None,
            frozenset(variables.values()),
        )
        for url in addresses
    }


def _parse_by_url(addresses: tuple[str, ...], texts: Iterable[str], flag: str) -> dict[str, str]:
    """Return the value of each URL; raise ConfigurationError for an unknown URL, or one that is named twice."""
    values: dict[str, str] = {}
    for text in texts:
        url, _, value = text.rpartition("=")
        if url not in addresses or not value or url in values:
            raise ConfigurationError(
                f"{flag} {text!r} is not about one of the repositories, or the second about one",
                hint=f"write {flag} 'URL=…' with one of: {', '.join(addresses)}",
            )
        values[url] = value
    return values
