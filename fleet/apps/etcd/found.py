"""Reads the layout of an etcd out of the StatefulSet that somebody made for it. Pure.

Flags, the environment and a file in a ConfigMap are all understood, and what a shell's script gives to etcd as far as
it is plain. What cannot be known, or could not be kept once members read files, is a problem with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fleet.apps.etcd.flags import FILE
from fleet.apps.etcd.layout import Layout
from fleet.kit.adoption.access import (
    check_urls,
    find_advertised,
    find_certificates,
    find_listener,
    host_by_service,
    listen_alike,
)
from fleet.kit.adoption.objections import check_ordinals
from fleet.kit.adoption.settings import SettingsReader, check_known, check_leaving, find_data
from fleet.kit.adoption.workload import Find, Process
from fleet.kit.driver import Problem

Object = dict[str, Any]
PREFIX = "ETCD_"  # of its variables
SETTINGS = SettingsReader(
    program="etcd",
    prefix=PREFIX,
    table=FILE,
    own=re.compile(
        r"name|config-file|advertise-client-urls|force-new-cluster|initial-(advertise-peer-urls|cluster.*)|"
        r"discovery.*|proxy.*|version"
    ),
    signs=frozenset(
        {"data-dir", "listen-client-urls", "listen-peer-urls", "advertise-client-urls", "initial-cluster"}
        | {"config-file"}
    ),
    file_flag="config-file",
)
_SHADOWS = frozenset(f"ETCDCTL_{name}" for name in ("API", "ENDPOINTS", "CACERT", "CERT", "KEY", "WRITE_OUT"))
_LISTENS = ("listen-client-urls", "listen-peer-urls", "listen-metrics-urls", "listen-client-http-urls")
_CERTIFICATES = {"ca": "trusted-ca-file", "cert": "cert-file", "key": "key-file"}  # etcd's own gateway uses the same


def layout(found: Object, find: Find) -> Layout | Problem:
    """Return the layout of a StatefulSet; `find` gives the texts of ConfigMaps and Secrets in its namespace."""
    process = SETTINGS.find_process(found, find)
    if process is None:
        return Problem("container", "no container starts etcd")
    words = frozenset({"member", "remove"})
    if problem := check_ordinals(found) or check_leaving(found, process, find, words, "etcd"):
        return problem
    settings = SETTINGS.read(process, find, found)
    if isinstance(settings, Problem):
        return settings
    common = _common(settings)
    problem = (
        check_known(process, common)
        or check_urls(common, _LISTENS)
        or SETTINGS.check_one_way(found, process, find, _common)
    )
    return problem or _lay_out(found, process, settings, common)


def _lay_out(
    found: Object, process: Process, settings: Mapping[str, Any], common: Mapping[str, Any]
) -> Layout | Problem:
    listener = find_listener(str(settings.get("listen-client-urls", "")), 2379)
    if listener is None:
        return Problem("listen-client-urls", "etcd listens to nobody outside of its pod")
    scheme, port = listener
    data = str(settings.get("data-dir", ""))
    claim = find_data(found, process, ("data-dir", data), ("wal-dir", str(settings.get("wal-dir") or data)))
    if isinstance(claim, Problem):
        return claim
    security = settings.get("client-transport-security") or {}
    paths = {name: (flag, str(security.get(flag, ""))) for name, flag in _CERTIFICATES.items()}
    certificates = find_certificates(found, process, paths) if scheme == "https" else {}
    if isinstance(certificates, Problem):
        return certificates
    host = host_by_service(found)
    peer = find_advertised(str(settings.get("initial-advertise-peer-urls", "")))
    client = find_advertised(str(settings.get("advertise-client-urls", "")))
    return Layout(
        stateful_set=found["metadata"]["name"],
        container=process.container,
        claim=claim,
        peer_url=peer or f"{scheme}://{host}:2380",
        client_url=client or f"{scheme}://{host}:{port}",
        port=port,
        config=common,
        files={name: (file.name, file.key) for name, (file, _) in certificates.items()},
        paths={name: path for name, (_, path) in certificates.items()},
        shadows=tuple(sorted(_SHADOWS & set(process.environment))),
        program=process.program or SETTINGS.program,
    )


def _common(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without what is each member's own. Where they listen must be the same words for all of them."""
    common = {name: value for name, value in settings.items() if not SETTINGS.is_own(name)}
    for name in _LISTENS:
        if name in common:
            common[name] = listen_alike(str(common[name]))
    common.setdefault("listen-peer-urls", "http://localhost:2380")
    common.setdefault("enable-grpc-gateway", True)  # the default of flags, and not of files in 3.4
    common.setdefault("logger", "zap")
    common.setdefault("log-outputs", ["stderr"])
    return common
