"""Reads the layout of an etcd out of the StatefulSet that somebody made for it. Pure.

Flags, the environment and a file in a ConfigMap are all understood, and what a shell's script gives to etcd as far as
it is plain. What cannot be known, or could not be kept once members read files, is a problem with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from fleet.apps.etcd.flags import FILE
from fleet.apps.etcd.layout import Layout
from fleet.kit.adoption.objections import check_ordinals
from fleet.kit.adoption.workload import File, Find, Process, claim_at, file_of, flags, hook_words, processes
from fleet.kit.driver import Problem
from fleet.kit.workload.settings_text import SettingsError, read_settings

Object = dict[str, Any]
PROGRAM = "etcd"
PREFIX = "ETCD_"  # of its variables
_OWN = re.compile(
    r"name|config-file|advertise-client-urls|force-new-cluster|initial-(advertise-peer-urls|cluster.*)|"
    r"discovery.*|proxy.*|version"
)
_SIGNS = frozenset(  # flags and variables that nothing but etcd has
    {"data-dir", "listen-client-urls", "listen-peer-urls", "advertise-client-urls", "initial-cluster", "config-file"}
)
_SHADOWS = frozenset(f"ETCDCTL_{name}" for name in ("API", "ENDPOINTS", "CACERT", "CERT", "KEY", "WRITE_OUT"))
_LISTENS = ("listen-client-urls", "listen-peer-urls", "listen-metrics-urls", "listen-client-http-urls")
_OPEN = re.compile(r"[$`]|\{(pod|ip|[a-z]+\.[^{}]+)\}")
_ANYWHERE = frozenset({"127.0.0.1", "localhost", "::1"})


def settings(process: Process, find: Find, found: Object) -> dict[str, Any] | Problem:
    """As etcd's own file would have them. A file beats all else, flags beat the environment: as in etcd itself."""
    template, first = found["spec"]["template"], f"{found['metadata']['name']}-0"
    said = flags(process.words)
    given = {
        name: value
        for one, value in process.environment.items()
        if one.startswith(PREFIX) and ((name := _flag(one)) in FILE or _OWN.fullmatch(name))  # it warns of others
    } | said
    if path := given.get("config-file", "").replace("{pod}", first):
        held = file_of(template, process.container, path, frozenset())
        text = (
            (find(held.kind, held.name) or {}).get(held.key) if held and held.kind in ("ConfigMap", "Secret") else None
        )
        if text is None:
            return Problem("config-file", f"{path} is in no ConfigMap or Secret that can be read")
        try:
            return read_settings(text.replace(first, "{pod}") if "{pod}" in given["config-file"] else text)
        except SettingsError as problem:
            return Problem("config-file", f"{path} is not a file of etcd's: it {problem}")
    made: dict[str, Any] = {}
    for name, value in given.items():
        if _OWN.fullmatch(name):
            made[name] = value
        elif name not in FILE:
            return Problem(name, f"--{name} cannot be said in a file, which members read from their first roll on")
        elif (typed := FILE[name].read(value)) is None:
            return Problem(name, f"{value!r} is nothing that could be written in a file")
        else:
            part = made.setdefault(FILE[name].part, {}) if FILE[name].part else made
            part[FILE[name].key or name] = typed
    return made


def _flag(variable: str) -> str:
    return variable.removeprefix(PREFIX).lower().replace("_", "-")


def candidate(found: Object, find: Find) -> Process | None:
    """The process that is etcd by its command line or environment; whether it really is, its port must say."""
    template, namespace = found["spec"]["template"], found["metadata"]["namespace"]
    every = list(processes(template, namespace, find, PROGRAM))
    certain = [one for one in every if one.program]
    if certain:
        return certain[0]
    return next((one for one in every if _looks_like(one)), None)


def _looks_like(process: Process) -> bool:
    """Variables that only begin like etcd's are those of its clients, too."""
    return bool(_SIGNS & {*map(_flag, process.environment), *flags(process.words)})


def layout(found: Object, find: Find) -> Layout | Problem:
    """Of a StatefulSet in whole; `find` gives the texts of ConfigMaps and Secrets in its namespace."""
    process = candidate(found, find)
    if process is None:
        return Problem("container", "no container starts etcd")
    if problem := check_ordinals(found) or _hook(found, process, find):
        return problem
    config = settings(process, find, found)
    if isinstance(config, Problem):
        return config
    common = _common(config)
    if problem := _unknown(process, common) or _in_two_ways(found, process, find, common):
        return problem
    return _laid_out(found, process, config, common)


def _unknown(process: Process, common: Mapping[str, Any]) -> Problem | None:
    """What differs from pod to pod, or is known only when a member runs, cannot be in a file for all of them."""
    if "/" in process.program and not process.program.startswith("/"):
        return Problem("command", f"where {process.program} is depends on the script that starts it")
    for name, value in common.items():
        inner = value.items() if isinstance(value, dict) else [(name, value)]
        for key, one in inner:
            if isinstance(one, str) and _OPEN.search(one):
                return Problem(key, f"{one} is known only when a member runs, or is not the same for all of them")
    for name in _LISTENS:
        for url in filter(None, str(common.get(name, "")).split(",")):
            if not all(_place(url)):
                return Problem(name, f"{url} is no URL")
    return None


def _place(url: str) -> tuple[str, int]:
    """Host and port; nothing and 0 of what is no URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        return "", 0
    return host, port


def _in_two_ways(found: Object, process: Process, find: Find, common: Mapping[str, Any]) -> Problem | None:
    """A script may start etcd in more than one place: the same way but for what is a member's own."""
    template, namespace = found["spec"]["template"], found["metadata"]["namespace"]
    for other in processes(template, namespace, find, PROGRAM):
        if other.container != process.container or not other.program:
            continue
        config = settings(other, find, found)
        if isinstance(config, Problem) or _common(config) != common:
            return Problem("command", "its script starts etcd in different ways, and which one runs is not known")
    return None


def _laid_out(
    found: Object, process: Process, config: Mapping[str, Any], common: Mapping[str, Any]
) -> Layout | Problem:
    own, spec = found["metadata"], found["spec"]
    listens = _listens(str(config.get("listen-client-urls", "")))
    if listens is None:
        return Problem("listen-client-urls", "etcd listens to nobody outside of its pod")
    scheme, port = listens
    data = str(config.get("data-dir", ""))
    claim = claim_at(found, process.container, data)
    if claim is None:
        return Problem(
            "data-dir", f"{data or 'its default'} is on no volume of a claim template, so data does not last"
        )
    log = str(config.get("wal-dir") or data)
    if log != data and claim_at(found, process.container, log) != claim:
        return Problem("wal-dir", f"{log} is not on the volume of the data, and one without the other is no member")
    secured = _files(found, process, config) if scheme == "https" else {}
    if isinstance(secured, Problem):
        return secured
    service = spec.get("serviceName") or own["name"]
    host = f"{{pod}}.{service}.{own['namespace']}.svc"
    peer = _advertised(str(config.get("initial-advertise-peer-urls", "")))
    client = _advertised(str(config.get("advertise-client-urls", "")))
    return Layout(
        stateful_set=own["name"],
        container=process.container,
        claim=claim,
        peer_url=peer or f"{scheme}://{host}:2380",
        client_url=client or f"{scheme}://{host}:{port}",
        port=port,
        config=common,
        files={name: (file.name, file.key) for name, (file, _) in secured.items()},
        paths={name: path for name, (_, path) in secured.items()},
        shadows=tuple(sorted(_SHADOWS & set(process.environment))),
        program=process.program or PROGRAM,
    )


def _hook(found: Object, process: Process, find: Find) -> Problem | None:
    """A member that leaves its cluster whenever its pod stops cannot be restarted one after the other."""
    words = hook_words(found, process.container, "preStop", find)
    if "member" in words and "remove" in words:
        return Problem("lifecycle.preStop", "its hook takes the member out of etcd whenever the pod stops")
    return None


def _common(config: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is each member's own. Where members listen must be the same words for all of them."""
    found = {name: value for name, value in config.items() if not _OWN.fullmatch(name)}
    for name in _LISTENS:
        if name in found:
            found[name] = _listening(str(found[name]))
    found.setdefault("listen-peer-urls", "http://localhost:2380")
    found.setdefault("enable-grpc-gateway", True)  # the default of flags, and not of files in 3.4
    found.setdefault("logger", "zap")
    found.setdefault("log-outputs", ["stderr"])
    return found


def _listening(urls: str) -> str:
    """At the same addresses for every pod. Who listens everywhere on a port cannot listen on it once more."""
    every = [_anywhere(url) for url in urls.split(",")]
    wide = {port for host, port in map(_place, every) if host == "0.0.0.0"}  # noqa: S104 - read, not bound
    kept = [url for url in every if _place(url)[0] == "0.0.0.0" or _place(url)[1] not in wide]  # noqa: S104
    return ",".join(dict.fromkeys(kept))


def _anywhere(url: str) -> str:
    return re.sub(r"//(\{(pod|ip)\}[^:/]*)", "//0.0.0.0", url.strip())


def _listens(urls: str) -> tuple[str, int] | None:
    """How clients from elsewhere are let in."""
    for url in filter(None, (one.strip() for one in urls.split(","))):
        parts = urlsplit(_anywhere(url))
        if parts.hostname not in _ANYWHERE and parts.scheme in ("http", "https"):
            return parts.scheme, parts.port or 2379
    return None


def _advertised(urls: str) -> str:
    """The first URL that a member is known by, if it is by its pod's name and nothing else is left open."""
    for url in (one.strip() for one in urls.split(",")):
        if "{pod}" in url and "$" not in url and url.count("{") == 1:
            return url
    return ""


def _files(found: Object, process: Process, config: Mapping[str, Any]) -> dict[str, tuple[File, str]] | Problem:
    """The files with which a client is let in: etcd's own gateway uses the same."""
    security = config.get("client-transport-security") or {}
    template, secured = found["spec"]["template"], {}
    for name, flag in (("ca", "trusted-ca-file"), ("cert", "cert-file"), ("key", "key-file")):
        path = str(security.get(flag, ""))
        held = file_of(template, process.container, path, frozenset()) if path else None
        if held is None or held.kind != "Secret":
            return Problem(
                flag, f"{path or 'not given'}: certificates must come from a Secret to be used by the operator"
            )
        secured[name] = (held, path)
    return secured
