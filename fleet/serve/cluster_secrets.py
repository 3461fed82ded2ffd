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
from fleet.kube.discovery import Resource
from fleet.kube.objects import get
from fleet.serve.scope import SHARED, RepositoryScope
from fleet.sync.options import connect

SECRETS = Resource("", "v1", "Secret", "secrets", True)
KEY = "kubeconfig"  # in the Secret's data


async def read_secret_kubeconfig(cluster: ClusterData, management: Client) -> bytes:
    namespace, _, name = (cluster.secret or "").partition("/")
    found = await get(management, SECRETS, namespace, name)
    text = (found or {}).get("data", {}).get(KEY, "")
    if not text:
        raise ConfigurationError(
            f"{cluster.name} is reached through the Secret {cluster.secret}, and it has no {KEY!r}",
            hint=f"kubectl -n {namespace} create secret generic {name} --from-file={KEY}=FILE",
            source=cluster.source,
        )
    return base64.b64decode(text)


def open_client(cluster: ClusterData, text: bytes, held: contextlib.ExitStack, *, trusted: bool = False) -> Client:
    """With credentials that are in a file of ours for as long as they are `held`.

    Whoever may write a Secret is not whoever runs the service. Unless that person trusts them, AccessError is raised
    for a kubeconfig that runs a program or reads a file of this machine, such as the service's own token.
    """
    file = held.enter_context(tempfile.NamedTemporaryFile(prefix="fleet-"))  # noqa: SIM115 - closed with what holds it
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
    """How the clusters of a commit are reached by whoever has no management cluster: read there before.

    The management cluster's client belongs to the service's own loop; a preview runs in a process of its own.
    """

    kubeconfig: Path | None
    texts: Mapping[str, bytes | FleetError] = field(
        default_factory=dict, repr=False
    )  # by cluster, or why there is none
    trusted: bool = False  # those may run programs and read files here
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
        texts: dict[str, bytes | FleetError] = {}
        if management is None:
            return cls(kubeconfig, scope=scope)
        for one in clusters:
            if one.secret and not one.pull:
                try:
                    scope.check_reach(one)
                    texts[one.name] = await read_secret_kubeconfig(one, management)
                except FleetError as problem:
                    texts[one.name] = problem
        return cls(kubeconfig, texts, trusted, scope)

    def plain(self) -> ClusterReach:
        """Return the same for another process: an error may hold what cannot be sent there."""
        texts = {name: one if isinstance(one, bytes) else _plain(one) for name, one in self.texts.items()}
        return replace(self, texts=texts)

    @contextlib.asynccontextmanager
    async def to(self, cluster: ClusterData) -> AsyncIterator[Client]:
        self.scope.check_reach(cluster)
        text = self.texts.get(cluster.name) if cluster.secret else None
        if isinstance(text, FleetError):
            raise text
        with contextlib.ExitStack() as held:
            if text is None:
                made = connect(cluster, self.kubeconfig)
            else:
                made = open_client(cluster, text, held, trusted=self.trusted)
            async with made as client:
                yield client


def _plain(problem: FleetError) -> FleetError:
    return AccessError(problem.message, hint=problem.hint, source=problem.source)
