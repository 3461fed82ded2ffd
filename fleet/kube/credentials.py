"""Kubeconfigs and service accounts, read by the `kubernetes` package; what comes out is a session and a header.

`kubernetes.aio` is transport only: its loader knows kubeconfigs (files and data, tokens, client certificates, exec
plugins, OIDC), its REST object makes the TLS context and the aiohttp session. Requests then go to that session
directly: the generated API classes decode into models and its `request()` encodes with the standard library and asks
the environment for proxies each time. Importing the package takes 0.8 s of CPU more than aiohttp alone, so this module
is imported when a client connects and not before.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ipaddress
import os
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.incluster_config import InClusterConfigLoader
from kubernetes.aio.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from fleet.errors import AccessError, ConfigurationError

if TYPE_CHECKING:
    import aiohttp

EXEC_SECONDS = 60.0  # a plugin may open a browser, but not for ever
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Credentials:
    """What is needed to talk to one cluster; renewed when it expires or when the server says 401."""

    def __init__(self, configuration: Any, context: str, loader: Any) -> None:
        self.context = context
        self._configuration = configuration
        self._loader = loader

    @classmethod
    async def from_kubeconfig(cls, path: Path | None = None, context: str | None = None) -> Credentials:
        where = _find(path)
        configuration = Configuration()
        try:
            loader = _Loader(KubeConfigMerger(where).config, active_context=context, config_base_path=None)
            await loader.load_and_set(configuration)
        except (TypeError, AttributeError) as problem:  # its loader takes a mapping for granted
            raise ConfigurationError(
                f"{where} is not a kubeconfig", hint="name one with --kubeconfig or the variable KUBECONFIG"
            ) from problem
        except (ConfigException, ValueError, OSError) as problem:
            raise ConfigurationError(
                f"the kubeconfig {where} cannot be used{f' with context {context}' if context else ''}: {problem}",
                hint="`kubectl config get-contexts` lists the contexts that there are",
            ) from problem
        return cls(configuration, str(loader.current_context["name"]), loader)

    @classmethod
    async def in_cluster(cls) -> Credentials:
        """The service account of the pod that this runs in."""
        configuration = Configuration()
        loader = InClusterConfigLoader(str(SERVICE_ACCOUNT / "token"), str(SERVICE_ACCOUNT / "ca.crt"))
        try:
            loader.load_and_set(configuration)
        except ConfigException as problem:
            raise ConfigurationError(f"this is not a pod with a service account: {problem}") from problem
        return cls(configuration, "", loader)

    @property
    def server(self) -> str:
        return str(self._configuration.host).rstrip("/")

    @property
    def authorization(self) -> str | None:
        """The header, from memory; a service account's token is read again from its file each minute."""
        hook = self._configuration.refresh_api_key_hook
        if hook is not None:
            hook(self._configuration)
        token = self._configuration.api_key.get("BearerToken")
        return str(token) if token else None

    @property
    def expired(self) -> bool:
        expiry = getattr(self._loader, "exec_plugin_expiry", None)
        return expiry is not None and expiry <= datetime.datetime.now(tz=datetime.UTC) + datetime.timedelta(seconds=30)

    async def renew(self) -> bool:
        """Load them anew. True when the session has to be made anew, because its client certificate changed."""
        if isinstance(self._loader, InClusterConfigLoader):
            self._loader.load_and_set(self._configuration)
            return False
        before = (self._configuration.cert_file, self._configuration.key_file)
        self._loader.forget()
        await self._loader.load_and_set(self._configuration)
        return (self._configuration.cert_file, self._configuration.key_file) != before

    @property
    def request_arguments(self) -> dict[str, Any]:
        """What aiohttp needs with each request: a proxy and the name in the server's certificate."""
        arguments: dict[str, Any] = {}
        if proxy := self._configuration.proxy or _environment_proxy(self.server):
            arguments["proxy"] = proxy
        if self._configuration.tls_server_name:
            arguments["server_hostname"] = self._configuration.tls_server_name
        return arguments

    def session(self, **arguments: Any) -> aiohttp.ClientSession:
        """A session of aiohttp with the TLS context of these credentials."""
        self._configuration.connection_pool_maxsize = 0  # the client's gate is the bound
        # As kubectl: clusters' own authorities often lack extensions that RFC 5280 asks for.
        self._configuration.disable_strict_ssl_verification = True
        self._configuration.client_session_kwargs = arguments
        session: aiohttp.ClientSession = RESTClientObject(self._configuration)._create_pool_manager()
        return session


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # the package is not typed
    """The package's loader, with an exec plugin that fails loudly: its own logs and goes on without credentials."""

    _user: Any

    def set_active_context(self, context_name: str | None = None) -> None:
        super().set_active_context(context_name)
        if self._user is None:  # a context may have no user; the package's loader fails on it
            self._user = ConfigNode("user", {}, self._config.path)

    async def load_from_exec_plugin(self) -> bool:
        if getattr(self, "exec_plugin_expiry", None) or "token" in self.__dict__:
            return True
        command = self._user["exec"].safe_get("command")
        try:
            status = await asyncio.wait_for(ExecProvider(self._user["exec"]).run(), EXEC_SECONDS)
        except TimeoutError as problem:
            raise AccessError(f"the kubeconfig's plugin {command!r} took more than {EXEC_SECONDS:.0f} s") from problem
        except (ConfigException, OSError) as problem:
            hint = self._user["exec"].safe_get("installHint")
            raise AccessError(f"the kubeconfig's plugin {command!r} failed: {problem}", hint=hint) from problem
        self._take(command, status)
        return True

    def _take(self, command: str, status: dict[str, Any]) -> None:
        if status.get("clientCertificateData") and status.get("clientKeyData"):
            pair = {
                "client-certificate-data": _base64(status["clientCertificateData"]),
                "client-key-data": _base64(status["clientKeyData"]),
            }
            self._user.value.update(pair)  # read from there with the rest, as if the file had it
        elif not status.get("token"):
            raise AccessError(f"the kubeconfig's plugin {command!r} gave neither a token nor a certificate")
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        if expiry := status.get("expirationTimestamp"):
            self.exec_plugin_expiry = datetime.datetime.fromisoformat(expiry.replace("Z", "+00:00"))

    def forget(self) -> None:
        for name in ("token", "exec_plugin_expiry", "cert_file", "key_file"):
            self.__dict__.pop(name, None)


def _find(path: Path | None) -> str:
    """The path, or the list of paths, that kubectl would read."""
    where = str(path) if path else os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(part).expanduser().exists() for part in where.split(os.pathsep) if part):
        raise ConfigurationError(
            f"there is no kubeconfig at {where}", hint="name one with --kubeconfig or the variable KUBECONFIG"
        )
    return where


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _environment_proxy(server: str) -> str | None:
    """HTTPS_PROXY and NO_PROXY as kubectl reads them, once: aiohttp's `trust_env` would ask again per request."""
    parts = urlsplit(server)
    if not parts.hostname or _is_near(parts.hostname) or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _is_near(host: str) -> bool:
    """This machine, or inside a network that NO_PROXY names: Python's own rules know neither."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    for entry in urllib.request.getproxies().get("no", "").split(","):
        with contextlib.suppress(ValueError):
            if "/" in entry and address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return address.is_loopback
