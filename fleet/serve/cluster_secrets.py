"""Kubeconfigs that users put into Secrets of the management cluster, for clusters that are reached with one."""

from __future__ import annotations

import base64
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet.errors import AccessError, ConfigurationError, FleetError
from fleet.evaluate.result import ClusterData
from fleet.kube.client.client import Client
from fleet.kube.client.kubeconfig import read_kubeconfig
from fleet.kube.objects import get
from fleet.objects.resource import Resource
from fleet.serve.options import SHARED, RepositoryScope
from fleet.sync.options import connect

SECRETS = Resource("", "v1", "Secret", "secrets", True)
KEY = "kubeconfig"  # in the Secret's data


async def read_secret_kubeconfig(cluster: ClusterData, management: Client) -> bytes:
    """Read a cluster's kubeconfig from its Secret; raise ConfigurationError if the Secret has none."""
    namespace, _, name = (cluster.secret or "").partition("/")
    secret = await get(management, SECRETS, namespace, name)
    text = (secret or {}).get("data", {}).get(KEY, "")
    if not text:
        raise ConfigurationError(
            f"{cluster.name} is reached through the Secret {cluster.secret}, and it has no {KEY!r}",
            hint=f"kubectl -n {namespace} create secret generic {name} --from-file={KEY}=FILE",
            source=cluster.source,
        )
    return base64.b64decode(text)


def open_client(cluster: ClusterData, text: bytes, resources: contextlib.ExitStack, *, trusted: bool = False) -> Client:
    """Return a client with credentials that are in a file of ours for as long as `resources` is open.

    The user who may write a Secret is not the user who runs the service. Unless the latter trusts the former
    (`trusted`), AccessError is raised for a kubeconfig that runs a program or reads a file of this machine, such as the
    service's own token.
    """
    file = resources.enter_context(tempfile.NamedTemporaryFile(prefix="fleet-"))  # noqa: SIM115 - closed with what holds it
    file.write(text)
    file.flush()
    if not trusted and (fields := read_kubeconfig(Path(file.name)).local_fields):
        raise AccessError(
            f"the kubeconfig in the Secret {cluster.secret} of {cluster.name} runs a program or reads a file of the "
            f"service's machine: {', '.join(fields)}",
            hint="put a token or the content of the files (…-data) into it, as `kubectl config view --raw --flatten` "
            "does; who runs the service can allow it with --trust-kubeconfigs",
        )
    return Client.of(file.name, None, cluster=cluster.name)


@dataclass(frozen=True, slots=True)
class ClusterReach:
    """Ways to reach the clusters of a commit without the management cluster, whose Secrets were read before.

    The management cluster's client belongs to the service's own loop; a preview runs in a process of its own.
    """

    kubeconfig: Path | None
    texts: Mapping[str, bytes | FleetError] = field(
        default_factory=dict, repr=False
    )  # kubeconfigs by cluster, or the error of reading one
    trusted: bool = False  # kubeconfigs in Secrets may run programs and read files here
    scope: RepositoryScope = SHARED

    @classmethod
    async def of(
        cls,
        clusters: tuple[ClusterData, ...],
        kubeconfig: Path | None,
        management: Client | None,
        *,
        trusted: bool = False,
        scope: RepositoryScope = SHARED,
    ) -> ClusterReach:
        """Read the kubeconfigs of clusters that are reached through Secrets.

        Where one cannot be read, its error is kept, and `to` raises it.
        """
        texts: dict[str, bytes | FleetError] = {}
        if management is None:
            return cls(kubeconfig, scope=scope)
        for cluster in clusters:
            if cluster.secret and not cluster.pull:
                try:
                    scope.check_reach(cluster)
                    texts[cluster.name] = await read_secret_kubeconfig(cluster, management)
                except FleetError as problem:
                    texts[cluster.name] = problem
        return cls(kubeconfig, texts, trusted, scope)

    def plain(self) -> ClusterReach:
        """Return the same for another process: an error may hold what cannot be sent there."""
        texts = {name: text if isinstance(text, bytes) else _plain_error(text) for name, text in self.texts.items()}
        return replace(self, texts=texts)

    @contextlib.asynccontextmanager
    async def to(self, cluster: ClusterData) -> AsyncIterator[Client]:
        """Connect to a cluster; raise AccessError or the error of its Secret if that is not possible."""
        self.scope.check_reach(cluster)
        text = self.texts.get(cluster.name) if cluster.secret else None
        if isinstance(text, FleetError):
            raise text
        with contextlib.ExitStack() as stack:
            if text is None:
                connection = connect(cluster, self.kubeconfig)
            else:
                connection = open_client(cluster, text, stack, trusted=self.trusted)
            async with connection as client:
                yield client


def _plain_error(problem: FleetError) -> FleetError:
    """Return the error with its texts only."""
    return AccessError(problem.message, hint=problem.hint, source=problem.source)
