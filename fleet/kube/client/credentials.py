"""Credentials of one cluster: its address, TLS, a proxy, headers.

All senders take them from one `Access`: a certificate, a token or a password in files, or what a plugin or a provider
gives in their place (`client.auth_plugins`).
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import ssl
import time
from abc import ABC, abstractmethod
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from fleet.errors import AccessError, ConfigurationError
from fleet.kube.client import kubeconfig
from fleet.kube.client.kubeconfig import ContextAccess, Headers, Section
from fleet.kube.client.proxy import choose_proxy

if TYPE_CHECKING:
    import aiohttp

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0  # for which a token from a file is kept in memory: another program renews the file
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class Credentials(ABC):
    """Credentials of one cluster, renewed when they expire or when the server answers 401."""

    context = ""
    server = ""

    @staticmethod
    async def from_kubeconfig(path: Path | None = None, context: str | None = None) -> Credentials:
        """Load the credentials of a kubeconfig's context; None stands for what kubectl would take."""
        access = kubeconfig.read_kubeconfig(path, context)
        if not access.plugin and not access.user.values.get("auth-provider"):
            return Plain(access, path)
        from fleet.kube.client.auth_plugins import PluginCredentials  # noqa: PLC0415 - only for those users

        return await PluginCredentials.load(access, path)

    @staticmethod
    async def in_cluster() -> Credentials:
        """Load the service account of the pod that this runs in; raise ConfigurationError outside of one."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        token, authority = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
        if not host or not port or not token.is_file() or not authority.is_file():
            raise ConfigurationError("this is not a pod with a service account")
        address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        cluster = Section({"server": address, "certificate-authority": str(authority)}, SERVICE_ACCOUNT)
        return Plain(ContextAccess("", cluster, Section({"tokenFile": str(token)}, SERVICE_ACCOUNT)))

    @property
    def is_expired(self) -> bool:
        """Return whether they have expired or are about to."""
        return False

    @property
    @abstractmethod
    def authorization(self) -> str | None:
        """Return the Authorization header, from memory; None if there is none."""

    @abstractmethod
    async def renew(self) -> bool:
        """Load them anew. Return whether connections have to be made anew, because what they are made with changed."""

    @property
    @abstractmethod
    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context for new connections; None if the address is one without TLS."""

    @property
    @abstractmethod
    def server_name(self) -> str | None:
        """Return the name in the server's certificate; None if it is that of the address."""

    @property
    @abstractmethod
    def proxy(self) -> str | None:
        """Return the URL of the proxy that the kubeconfig or the environment names; None if none does."""

    @property
    @abstractmethod
    def is_compression_disabled(self) -> bool:
        """Return whether the kubeconfig says that the server is not to compress its answers."""

    @property
    @abstractmethod
    def impersonation(self) -> Headers:
        """Return the headers of the identity that the kubeconfig's user takes on."""

    @property
    def request_arguments(self) -> dict[str, Any]:
        """Return what aiohttp needs with each request: a proxy and the name in the server's certificate."""
        arguments = {"proxy": self.proxy, "server_hostname": self.server_name}
        return {name: value for name, value in arguments.items() if value}

    def session(self, **arguments: Any) -> aiohttp.ClientSession:
        """Make a session of aiohttp with this TLS context. It has no limit of connections: the client has one."""
        import aiohttp  # noqa: PLC0415 - slow to load, and not needed to read

        connector = aiohttp.TCPConnector(limit=0, ssl=self.tls or True)
        return aiohttp.ClientSession(connector=connector, **arguments)


class Plain(Credentials):
    """A certificate, a token, a password or nothing, as they are in files.

    As with kubectl, credentials are never sent without TLS.
    """

    def __init__(self, access: ContextAccess, path: Path | None = None) -> None:
        self.context = access.context
        self._path = path
        self._token: tuple[str, float] = ("", 0.0)
        self._take(access)

    def _take(self, access: ContextAccess) -> None:
        cluster, user = access.cluster, access.user
        self.server = str(cluster.values.get("server") or "").rstrip("/")
        try:
            if not self.server.startswith(("https://", "http://")):
                raise ValueError(f"{self.server or 'nothing'} is not the address of a server")
            self._is_private = self.server.startswith("https://")
            self._authority = cluster.content("certificate-authority")
            self._pair = self._certificate(access)
            self._access = access
            self._header = self._of_user(user)
            if (token := user.file("tokenFile")) and self._is_private and not self._header:
                token.read_text()
            self._proxy = choose_proxy(self.server, cluster.values.get("proxy-url") or "", os.environ)
            self._tls = self._context() if self._is_private else None
        except (OSError, ValueError) as problem:  # ssl.SSLError is an OSError, binascii.Error a ValueError
            raise self._unusable(access, problem) from problem

    def _unusable(self, access: ContextAccess, problem: Exception) -> AccessError:
        where = os.pathsep.join(map(str, kubeconfig.kubeconfig_files(self._path)))
        return kubeconfig.unusable_kubeconfig(where, access.context, problem)

    def _certificate(self, access: ContextAccess) -> tuple[bytes | None, bytes | None]:
        return access.user.content("client-certificate"), access.user.content("client-key")

    def _of_user(self, user: Section) -> str | None:
        values = user.values
        if values.get("token"):
            return f"Bearer {values['token']}"
        if values.get("username"):
            pair = f"{values['username']}:{values.get('password') or ''}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return None

    @property
    def authorization(self) -> str | None:
        """Return the header. As with kubectl, a token read from the file comes before one in the kubeconfig."""
        if not self._is_private:
            return None
        path = self._access.user.file("tokenFile")
        if path is None:
            return self._header
        header, read = self._token
        if not header or time.monotonic() - read > TOKEN_SECONDS:
            with contextlib.suppress(OSError):  # it is being replaced: the one from before may still do
                header = f"Bearer {path.read_text().strip()}"
            self._token = (header, time.monotonic())
        return header or self._header

    async def renew(self) -> bool:
        before = self._connection
        self._token = ("", 0.0)
        if self.context:
            self._take(kubeconfig.read_kubeconfig(self._path, self.context))
        return self._connection != before

    @property
    def _connection(self) -> tuple[object, ...]:
        """Return what a connection is made with: none that was made with something else is used again."""
        return self.server, self._authority, self._pair, self.server_name, self._proxy, self.is_compression_disabled

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._tls

    @property
    def server_name(self) -> str | None:
        return self._access.cluster.values.get("tls-server-name") or None

    @property
    def proxy(self) -> str | None:
        return self._proxy

    @property
    def is_compression_disabled(self) -> bool:
        return bool(self._access.cluster.values.get("disable-compression"))

    @property
    def impersonation(self) -> Headers:
        return self._access.impersonation

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=_find_certificates(self._authority) if self._authority else None)
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
                context.load_cert_chain(both.name, password=_no_password)
        return context


def _no_password() -> str:
    raise ValueError("the client-key is encrypted, which kubectl does not take either")


def _find_certificates(text: bytes) -> str:
    """Return the certificates in a file that may also have comments, keys, and text in any encoding."""
    certificates = [match.decode("ascii", "replace") for match in _CERTIFICATE.findall(text)]
    if not certificates:
        raise ValueError("its certificate-authority has no certificate")
    return "\n".join(certificates)
