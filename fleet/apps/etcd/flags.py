"""Which of etcd's flags can be said in its file, under which key, and as what: read from etcd's own source. Pure.

A file is not read strictly: a key that etcd does not know is no setting, and nobody is told. And a value of another
type than etcd wants keeps it from starting. So only what is listed here is taken from flags and variables into a file;
what some of the series that fleet knows have no key for is left out, as who may be a peer by the name in a certificate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


class InFile(NamedTuple):
    read: Callable[[str], Any]  # the text of a flag as a file has it; None where it is no such thing
    key: str = ""  # where it is not the flag's name
    part: str = ""  # the section that it is in


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _yes(text: str) -> bool | None:
    return text in _TRUE if text in (*_TRUE, *_FALSE) else None


def _nanoseconds(text: str) -> int | None:
    """As Go writes times: 1h30m, 100ms, 0."""
    if text == "0":
        return 0
    parts = re.findall(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", text)
    whole = "".join(number + unit for number, unit in parts) == text and bool(parts)
    return int(sum(float(number) * _UNITS[unit] for number, unit in parts)) if whole else None


def _listed(text: str) -> list[str]:
    return text.split(",") if text else []


_TEXTS = """
    data-dir wal-dir listen-client-urls listen-peer-urls listen-metrics-urls listen-client-http-urls
    auto-compaction-mode auto-compaction-retention auth-token cors host-whitelist metrics
    logger log-level log-format log-package-levels log-rotation-config-json
    backend-bbolt-freelist-type tls-min-version tls-max-version v2-deprecation feature-gates experimental-enable-v2v3
    experimental-distributed-tracing-address experimental-distributed-tracing-service-name
    experimental-distributed-tracing-instance-id distributed-tracing-address distributed-tracing-service-name
    distributed-tracing-instance-id
"""
_NUMBERS = """
    snapshot-count heartbeat-interval election-timeout quota-backend-bytes max-snapshots max-wals max-txn-ops
    max-request-bytes max-concurrent-streams max-learners backend-batch-limit bcrypt-cost auth-token-ttl
    self-signed-cert-validity compaction-batch-limit experimental-compaction-batch-limit snapshot-catchup-entries
    bootstrap-defrag-threshold-megabytes experimental-bootstrap-defrag-threshold-megabytes experimental-max-learners
    distributed-tracing-sampling-rate experimental-distributed-tracing-sampling-rate
"""
_TIMES = """
    grpc-keepalive-min-time grpc-keepalive-interval grpc-keepalive-timeout backend-batch-interval
    corrupt-check-time compact-hash-check-time compaction-sleep-interval watch-progress-notify-interval
    warning-apply-duration warning-unary-request-duration downgrade-check-time
    experimental-corrupt-check-time experimental-compact-hash-check-time experimental-compaction-sleep-interval
    experimental-watch-progress-notify-interval experimental-warning-apply-duration
    experimental-warning-unary-request-duration experimental-downgrade-check-time
"""
_BOOLEANS = """
    initial-election-tick-advance strict-reconfig-check pre-vote enable-pprof enable-v2 enable-grpc-gateway debug
    enable-log-rotation unsafe-no-fsync memory-mlock enable-distributed-tracing
    experimental-initial-corrupt-check experimental-compact-hash-check-enabled experimental-enable-lease-checkpoint
    experimental-enable-lease-checkpoint-persist experimental-enable-distributed-tracing experimental-memory-mlock
    experimental-txn-mode-write-with-shared-buffer experimental-stop-grpc-service-on-defrag
"""


def _all() -> Iterator[tuple[str, InFile]]:
    kinds: tuple[tuple[str, Callable[[str], Any]], ...] = (
        (_TEXTS, str),
        (_NUMBERS, _number),
        (_TIMES, _nanoseconds),
        (_BOOLEANS, _yes),
        ("log-outputs cipher-suites", _listed),
    )
    for names, read in kinds:
        yield from ((name, InFile(read)) for name in names.split())
    yield "experimental-snapshot-catchup-entries", InFile(_number, "experimental-snapshot-catch-up-entries")
    for prefix, part in (("", "client-transport-security"), ("peer-", "peer-transport-security")):
        for name in ("cert-file", "key-file", "trusted-ca-file", "client-cert-file", "client-key-file"):
            yield f"{prefix}{name}", InFile(str, name, part)
        for name in ("client-cert-auth", "auto-tls"):
            yield f"{prefix}{name}", InFile(_yes, name, part)


FILE = dict(_all())
