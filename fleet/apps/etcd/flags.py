"""Which of etcd's flags can be said in its file, under which key, and as what: read from etcd's own source. Pure.

What some of the series that fleet knows have no key for is left out, as who may be a peer by the name in a certificate.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.kit.adoption.flags import InFile, list_flags, read_boolean, read_list, read_nanoseconds, read_number

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


_KINDS = (
    (_TEXTS, str),
    (_NUMBERS, read_number),
    (_TIMES, read_nanoseconds),
    (_BOOLEANS, read_boolean),
    ("log-outputs cipher-suites", read_list),
)


def _list_others() -> Iterator[tuple[str, InFile]]:
    """Yield the flags that the file has under another key, or in a section."""
    yield "experimental-snapshot-catchup-entries", InFile(read_number, "experimental-snapshot-catch-up-entries")
    for prefix, part in (("", "client-transport-security"), ("peer-", "peer-transport-security")):
        for name in ("cert-file", "key-file", "trusted-ca-file", "client-cert-file", "client-key-file"):
            yield f"{prefix}{name}", InFile(str, name, part)
        for name in ("client-cert-auth", "auto-tls"):
            yield f"{prefix}{name}", InFile(read_boolean, name, part)


FILE = {**list_flags(_KINDS), **dict(_list_others())}
