"""Credentials from a plugin (exec) or a provider (OIDC), in the place of those that a kubeconfig may hold itself.

A plugin is run as kubectl runs it: the one of this context's user and no other, relative to the file that defines that
user, and with what the kubeconfig says of the cluster if the plugin's settings ask for that. It is not run where it is
not needed, because the user has other credentials or the address is one without TLS.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.errors import AccessError
from fleet.kube.client import kubeconfig
from fleet.kube.client.credentials import Plain
from fleet.kube.client.kubeconfig import ContextAccess, Section

EXEC_SECONDS = 60.0  # a plugin may open a browser, but not for ever
EARLY = datetime.timedelta(seconds=30)
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXTENSION = "client.authentication.k8s.io/exec"  # of a cluster: its configuration for plugins


@dataclass(frozen=True, slots=True)
class PluginResult:
    """Credentials that a plugin or a provider gave."""

    token: str = ""
    pair: tuple[bytes | None, bytes | None] = (None, None)
    expiry: datetime.datetime | None = None


class PluginCredentials(Plain):
    """Credentials of a kubeconfig's context whose user has a plugin or a provider."""

    def __init__(self, access: ContextAccess, path: Path | None, given: PluginResult) -> None:
        self._given = given
        super().__init__(access, path)

    @classmethod
    async def load(cls, access: ContextAccess, path: Path | None = None) -> PluginCredentials:
        try:
            result = await _load_result(access)
        except (ValueError, OSError) as problem:
            where = os.pathsep.join(map(str, kubeconfig.kubeconfig_files(path)))
            raise kubeconfig.unusable_kubeconfig(where, access.context, problem) from problem
        return cls(access, path, result)

    @property
    def authorization(self) -> str | None:
        static = super().authorization
        return f"Bearer {self._given.token}" if self._given.token and not static and self._is_private else static

    @property
    def is_expired(self) -> bool:
        expiry = self._given.expiry
        return expiry is not None and expiry <= datetime.datetime.now(tz=datetime.UTC) + EARLY

    async def renew(self) -> bool:
        access = kubeconfig.read_kubeconfig(self._path, self.context)
        self._given = await _load_result(access)
        return await super().renew()

    def _certificate(self, access: ContextAccess) -> tuple[bytes | None, bytes | None]:
        return self._given.pair if self._given.pair[0] else super()._certificate(access)


async def _load_result(access: ContextAccess) -> PluginResult:
    if not str(access.cluster.values.get("server") or "").startswith("https://"):
        return PluginResult()  # nothing that proves who asks goes over a connection without TLS
    if access.plugin:
        return await _run_plugin(access, access.plugin)
    provider = access.user.values.get("auth-provider")
    return await _read_oidc_token(access, provider) if provider else PluginResult()


async def _run_plugin(access: ContextAccess, plugin: dict[str, Any]) -> PluginResult:
    command, version = plugin.get("command"), plugin.get("apiVersion")
    if not isinstance(command, str) or not command or version not in VERSIONS:
        raise ValueError(f"its plugin needs a command and an apiVersion that is one of {', '.join(VERSIONS)}")
    if os.sep in command:
        command = str(access.user.directory / command)
    arguments = plugin.get("args") or []
    variables = {str(variable["name"]): str(variable.get("value", "")) for variable in plugin.get("env") or []}
    mode = plugin.get("interactiveMode") or "IfAvailable"
    is_interactive = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    spec: dict[str, Any] = {"interactive": is_interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _describe_cluster(access.cluster)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        if mode == "Always" and not is_interactive:
            raise ValueError("it asks questions, and nobody can answer: standard input is not a terminal")
        answer = await _run_command([command, *map(str, arguments)], environment, is_interactive=is_interactive)
        return _read_credential(answer, str(version))
    except TimeoutError as problem:
        raise AccessError(f"the kubeconfig's plugin {command!r} took more than {EXEC_SECONDS:.0f} s") from problem
    except (ValueError, OSError) as problem:
        hint = plugin.get("installHint")
        raise AccessError(f"the kubeconfig's plugin {command!r} failed: {problem}", hint=hint) from problem


async def _run_command(command: list[str], environment: dict[str, str], *, is_interactive: bool) -> bytes:
    """Run a command and return what it prints; raise ValueError if it fails.

    Its messages go to the user's terminal if it is interactive, else into the error.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=None if is_interactive else asyncio.subprocess.PIPE,
    )
    try:
        output, complaint = await asyncio.wait_for(process.communicate(), EXEC_SECONDS)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        message = (complaint or b"").decode(errors="replace").strip()[-500:]
        raise ValueError(f"the process returned {process.returncode}{f': {message}' if message else ''}")
    return output


def _read_credential(output: bytes, version: str) -> PluginResult:
    """Read an ExecCredential; raise ValueError if it is none that can be used. Pure."""
    try:
        answer = json.loads(output)
    except ValueError as problem:
        raise ValueError(f"failed to decode its output: {problem}") from None
    for name in ("apiVersion", "kind", "status"):
        if not isinstance(answer, dict) or not answer.get(name):
            raise ValueError(f"its output is no ExecCredential: missing key {name!r}")
    if answer["apiVersion"] != version:
        raise ValueError(f"it was asked for {version} and answered with {answer['apiVersion']}")
    status = answer["status"]
    certificate, key, token = (status.get(name) or "" for name in ("clientCertificateData", "clientKeyData", "token"))
    if bool(certificate) != bool(key):
        raise ValueError("it gave a certificate or a key, and not both")
    if not (certificate or token):
        raise ValueError("it gave neither a token nor a certificate")
    expiry = status.get("expirationTimestamp")
    return PluginResult(
        token,
        (certificate.encode(), key.encode()) if certificate else (None, None),
        datetime.datetime.fromisoformat(expiry.replace("Z", "+00:00")) if expiry else None,
    )


def _describe_cluster(cluster: Section) -> dict[str, Any]:
    """Return the description of a cluster for a plugin with `provideClusterInfo`."""
    values = cluster.values
    authority = cluster.content("certificate-authority")
    config = [
        extension.get("extension") for extension in values.get("extensions") or () if extension.get("name") == EXTENSION
    ]
    description = {
        "server": values.get("server"),
        "tls-server-name": values.get("tls-server-name"),
        "insecure-skip-tls-verify": values.get("insecure-skip-tls-verify"),
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else None,
        "proxy-url": values.get("proxy-url"),
        "disable-compression": values.get("disable-compression"),
    }
    return {name: value for name, value in description.items() if value} | {"config": config[0] if config else None}


async def _read_oidc_token(access: ContextAccess, provider: dict[str, Any]) -> PluginResult:
    """Return the token of an OIDC provider, refreshed by the `kubernetes` package, which is slow to load."""
    if provider.get("name") != "oidc":
        raise ValueError(
            f"kubectl has no auth-provider {provider.get('name')!r} any more, and neither has fleet: "
            "the plugin of that cloud takes its place (exec)"
        )
    from kubernetes.aio.config.config_exception import ConfigException  # noqa: PLC0415
    from kubernetes.aio.config.kube_config import KubeConfigLoader  # noqa: PLC0415

    names = {"cluster": "it", "user": "it"}
    document = {
        "clusters": [{"name": "it", "cluster": access.cluster.values}],
        "users": [{"name": "it", "user": {"auth-provider": provider}}],
        "contexts": [{"name": "it", "context": names}],
        "current-context": "it",
    }
    try:
        token = await KubeConfigLoader(document)._load_oid_token()
    except ConfigException as problem:
        raise ValueError(problem) from problem
    return PluginResult(str(token).removeprefix("Bearer "))
