"""Credentials that a plugin or a provider gives (exec, OIDC, clouds): read and renewed by the `kubernetes` package.

Its loader knows the kubeconfig's providers, its REST object makes the TLS context. Loading the package takes half a
second of CPU, so this module is imported only for users who need it.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import os
import ssl
from pathlib import Path
from typing import Any

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from fleet.errors import AccessError
from fleet.kube import kubeconfig
from fleet.kube.credentials import Credentials

EXEC_SECONDS = 60.0  # a plugin may open a browser, but not for ever


class Provided(Credentials):
    """By a context of a kubeconfig whose user is given by a provider."""

    def __init__(self, configuration: Any, loader: Any) -> None:
        self.context = str(loader.current_context["name"])
        self.server = str(configuration.host).rstrip("/")
        self._configuration = configuration
        self._loader = loader
        self._tls: ssl.SSLContext | None = None

    @classmethod
    async def load(cls, path: Path | None = None, context: str | None = None) -> Provided:
        where = os.pathsep.join(map(str, kubeconfig.files(path)))
        configuration = Configuration()
        # As kubectl: clusters' own authorities often lack extensions that RFC 5280 asks for.
        configuration.disable_strict_ssl_verification = True
        try:
            loader = _Loader(KubeConfigMerger(where).config, active_context=context, config_base_path=None)
            await loader.load_and_set(configuration)
        except (ConfigException, ValueError, OSError) as problem:
            raise kubeconfig.unusable(where, context, problem) from problem
        return cls(configuration, loader)

    @property
    def authorization(self) -> str | None:
        token = self._configuration.api_key.get("BearerToken")
        return str(token) if token else None

    @property
    def expired(self) -> bool:
        expiry = getattr(self._loader, "exec_plugin_expiry", None)
        return expiry is not None and expiry <= datetime.datetime.now(tz=datetime.UTC) + datetime.timedelta(seconds=30)

    async def renew(self) -> bool:
        before = (self._configuration.cert_file, self._configuration.key_file)
        self._loader.forget()
        await self._loader.load_and_set(self._configuration)
        changed = (self._configuration.cert_file, self._configuration.key_file) != before
        self._tls = None if changed else self._tls
        return changed

    @property
    def tls(self) -> ssl.SSLContext | None:
        if self._tls is None and self.server.startswith("https://"):
            self._tls = RESTClientObject(self._configuration).ssl_context
        return self._tls

    @property
    def server_name(self) -> str | None:
        return self._configuration.tls_server_name or None

    @property
    def own_proxy(self) -> str | None:
        return self._configuration.proxy or None


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


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
