"""etcd's own settings. What the operator must decide itself, because members depend on it, cannot be set here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, PlainSerializer

from fleet.kit.workload.options import OptionRules
from fleet.model.base import OF_NEW_APPS, FrozenMap, Model, Rule
from fleet.model.types import Duration, Quantity

OPTIONS = OptionRules(
    engine="etcd",
    fields={
        "quota-backend-bytes": "quota",
        "auto-compaction-mode": "compaction",
        "auto-compaction-retention": "compaction",
        "snapshot-count": "snapshot_count",
        "heartbeat-interval": "heartbeat_ms",
        "election-timeout": "election_ms",
        "max-request-bytes": "max_request",
        "log-level": "log_level",
    },
    owned=re.compile(
        r"(name|data-dir|wal-dir|config-file|force-new-cluster|discovery.*|proxy.*|"
        r"(listen|advertise|initial)-.*|.*(cert|key|trusted-ca)-file|(peer-)?(auto-tls|client-cert-auth))"
    ),
    trust=re.compile(
        r".*(transportsecurity|tlsinfo|autotls|certauth|skipclientsan|allowedcn|allowedhostname|certfile|keyfile|"
        r"cafile|crlfile|insecure).*"
    ),
)


class EtcdConfig(Model, frozen=True):
    """How etcd itself is set. Everything follows from the app's size unless it is given here."""

    quota: Quantity | None = None
    """How large the database may grow, less than the storage; unless given, three quarters of the storage, 8Gi at most,
    and less where that would leave under 512Mi for its logs."""
    compaction: Annotated[Duration, OF_NEW_APPS] = "1h"
    """For how long old revisions are kept before etcd compacts them away; unless given 1h, or what members that others
    set up do."""
    snapshot_count: Annotated[int, Field(ge=100)] | None = None
    """After how many transactions etcd writes a snapshot; its own choice unless given."""
    heartbeat_ms: Annotated[int, Field(ge=10, le=10_000)] = 100
    """How often the leader tells the others that it is there, in milliseconds."""
    election_ms: Annotated[int, Field(ge=50, le=50_000)] = 1000
    """How long members wait for the leader before they elect another, in milliseconds."""
    max_request: Quantity = "1536Ki"
    """The largest request that a client may send."""
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    """How much etcd writes into its log."""
    options: Annotated[
        Mapping[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=1024)]],
        Field(max_length=64),
        AfterValidator(OPTIONS.check),
        PlainSerializer(dict, return_type=dict[str, str]),
    ] = FrozenMap()
    """Any other flag of etcd, by its name without dashes: a word, a number, true or false, or a list in brackets."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.electionMs >= 5 * self.heartbeatMs",
            message="the election timeout must be at least five times the heartbeat, or elections never end",
            holds=lambda self: self.election_ms >= 5 * self.heartbeat_ms,
            hint=lambda self: f"election_ms={10 * self.heartbeat_ms} is the usual choice",
            field="election_ms",
        ),
    )
