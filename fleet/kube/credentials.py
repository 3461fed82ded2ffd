"""What is needed to talk to one cluster: its address, TLS, a header.

Most kubeconfigs have a certificate or a token, and pods have their service account: those are read here. Plugins and
providers (exec, OIDC, clouds) are the `kubernetes` package's to run, which takes half a second to load; see `provided`.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import os
import ssl
import time
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fleet.errors import ConfigurationError
from fleet.kube import kubeconfig
from fleet.kube.kubeconfig import Access, Section

if TYPE_CHECKING:
    import aiohttp

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0  # a token in a file is renewed by somebody else: how long it is taken from memory
PROVIDERS = frozenset({"exec", "auth-provider"})


class Credentials(ABC):
    """Renewed when they expire or when the server says 401."""

    context = ""
    server = ""

    @staticmethod
    async def from_kubeconfig(path: Path | None = None, context: str | None = None) -> Credentials:
        """By the context of a kubeconfig; None is what kubectl would take."""
        access = kubeconfig.read(path, context)
        if PROVIDERS.isdisjoint(access.user.values):
            return Plain(access, path)
        from fleet.kube.provided import Provided  # noqa: PLC0415 - brings the kubernetes package

        return await Provided.load(path, context)

    @staticmethod
    async def in_cluster() -> Credentials:
        """The service account of the pod that this runs in."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        token, authority = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
        if not host or not port or not token.is_file() or not authority.is_file():
            raise ConfigurationError("this is not a pod with a service account")
        address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        cluster = Section({"server": address, "certificate-authority": str(authority)}, SERVICE_ACCOUNT)
        return Plain(Access("", cluster, Section({"tokenFile": str(token)}, SERVICE_ACCOUNT)))

    @property
    def expired(self) -> bool:
        """Or are about to be."""
        return False

    @property
    @abstractmethod
    def authorization(self) -> str | None:
        """The header, from memory."""

    @abstractmethod
    async def renew(self) -> bool:
        """Load them anew. True when connections have to be made anew, because the client certificate changed."""

    @property
    @abstractmethod
    def tls(self) -> ssl.SSLContext | None:
        """For new connections; None where the address is one without TLS."""

    @property
    @abstractmethod
    def server_name(self) -> str | None:
        """The name in the server's certificate, where it is not that of the address."""

    @property
    @abstractmethod
    def own_proxy(self) -> str | None:
        """The one that the kubeconfig names."""

    @cached_property
    def proxy(self) -> str | None:
        return self.own_proxy or _environment_proxy(self.server)

    @property
    def request_arguments(self) -> dict[str, Any]:
        """What aiohttp needs with each request: a proxy and the name in the server's certificate."""
        given = {"proxy": self.proxy, "server_hostname": self.server_name}
        return {name: value for name, value in given.items() if value}

    def session(self, **arguments: Any) -> aiohttp.ClientSession:
        """A session of aiohttp with the TLS context of these credentials; how much at once is the client's matter."""
        import aiohttp  # noqa: PLC0415 - slow to load, and not needed to read

        connector = aiohttp.TCPConnector(limit=0, ssl=self.tls or True)
        return aiohttp.ClientSession(connector=connector, **arguments)


class Plain(Credentials):
    """A certificate, a token, a password or nothing, as they stand in files."""

    def __init__(self, access: Access, path: Path | None = None) -> None:
        self.context = access.context
        self._path = path
        self._token: tuple[str, float] = ("", 0.0)
        self._take(access)

    def _take(self, access: Access) -> None:
        cluster, user = access.cluster, access.user
        self.server = str(cluster.values.get("server") or "").rstrip("/")
        try:
            if not self.server.startswith(("https://", "http://")):
                raise ValueError(f"{self.server or 'nothing'} is not the address of a server")
            self._authority = cluster.content("certificate-authority")
            self._pair = (user.content("client-certificate"), user.content("client-key"))
            self._access = access
            self._header = self._of_user(user)
            self._tls = self._context() if self.server.startswith("https://") else None
        except (OSError, ValueError) as problem:  # ssl.SSLError is an OSError, binascii.Error a ValueError
            where = os.pathsep.join(map(str, kubeconfig.files(self._path)))
            raise kubeconfig.unusable(where, access.context, problem) from problem

    def _of_user(self, user: Section) -> str | None:
        values = user.values
        if values.get("token"):
            return f"Bearer {values['token']}"
        if values.get("tokenFile"):
            return None  # read when it is needed, and again later
        if "username" in values and "password" in values:
            pair = f"{values['username']}:{values['password']}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return None

    @property
    def authorization(self) -> str | None:
        path = self._access.user.file("tokenFile")
        if self._header or path is None:
            return self._header
        header, read = self._token
        if not header or time.monotonic() - read > TOKEN_SECONDS:
            with contextlib.suppress(OSError):  # it is being replaced: the one from before may still do
                header = f"Bearer {path.read_text().strip()}"
            self._token = (header, time.monotonic())
        return header or None

    async def renew(self) -> bool:
        before = (self._authority, self._pair)
        self._token = ("", 0.0)
        if self.context:
            self._take(kubeconfig.read(self._path, self.context))
        return (self._authority, self._pair) != before

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._tls

    @property
    def server_name(self) -> str | None:
        return self._access.cluster.values.get("tls-server-name") or None

    @property
    def own_proxy(self) -> str | None:
        return self._access.cluster.values.get("proxy-url") or None

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._authority.decode("ascii") if self._authority else None)
        # As kubectl: clusters' own authorities often lack extensions that RFC 5280 asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self._access.cluster.values.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = self._pair
        if certificate and key:
            with NamedTemporaryFile(prefix="fleet-") as both:  # ssl takes them from files only; this is a private one
                both.write(certificate + b"\n" + key)
                both.flush()
                context.load_cert_chain(both.name)
        return context


def _environment_proxy(server: str) -> str | None:
    """HTTPS_PROXY and NO_PROXY as kubectl reads them, once: aiohttp's `trust_env` would ask again per request."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None  # as almost always, and what reads them is slow to load
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    parts = urlsplit(server)
    if not parts.hostname or _is_near(parts.hostname, getproxies().get("no", "")) or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def _is_near(host: str, exempt: str) -> bool:
    """This machine, or inside a network that NO_PROXY names: Python's own rules know neither."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    for entry in exempt.split(","):
        with contextlib.suppress(ValueError):
            if "/" in entry and address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return address.is_loopback
