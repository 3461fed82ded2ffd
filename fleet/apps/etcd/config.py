"""etcd's own settings. What the operator must decide itself, because members depend on it, cannot be set here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, PlainSerializer

from fleet.kit.workload.settings_text import SettingsError, read_value
from fleet.model.base import OF_NEW_APPS, FrozenMap, Model, Rule
from fleet.model.types import Duration, Quantity
from fleet.model.validation import invalid_value

_TYPED = {
    "quota-backend-bytes": "quota",
    "auto-compaction-mode": "compaction",
    "auto-compaction-retention": "compaction",
    "snapshot-count": "snapshot_count",
    "heartbeat-interval": "heartbeat_ms",
    "election-timeout": "election_ms",
    "max-request-bytes": "max_request",
    "log-level": "log_level",
}
_OURS = re.compile(
    r"(name|data-dir|wal-dir|config-file|force-new-cluster|discovery.*|proxy.*|"
    r"(listen|advertise|initial)-.*|.*(cert|key|trusted-ca)-file|(peer-)?(auto-tls|client-cert-auth))"
)
# Whom members let in. Matched without dashes: a file also knows the names of fields in etcd's own source.
_TRUST = re.compile(
    r".*(transportsecurity|tlsinfo|autotls|certauth|skipclientsan|allowedcn|allowedhostname|certfile|keyfile|cafile|"
    r"crlfile|insecure).*"
)


def _options(options: Mapping[str, str]) -> Mapping[str, str]:
    for flag in options:
        bare = flag.lstrip("-")
        if flag != bare:
            raise invalid_value(f"{flag!r} begins with a dash", f"write {bare!r}")
        if flag in _TYPED:
            raise invalid_value(f"{flag!r} has a field of its own", f"set {_TYPED[flag]} instead")
        if _OURS.fullmatch(flag):
            raise invalid_value(f"{flag!r} is set by the operator: members would not find each other", "leave it out")
        if _TRUST.fullmatch(flag.replace("-", "")):
            raise invalid_value(f"{flag!r} says whom members let in, which is for the app's tls to say", "leave it out")
        if not re.fullmatch(r"[a-z0-9][-a-z0-9]*", flag):
            raise invalid_value(f"{flag!r} is not a flag of etcd", "flags are lower-case words with dashes")
        try:
            read_value(options[flag])
        except SettingsError as problem:
            raise invalid_value(f"the value of {flag!r} {problem}", 'such as "5000", "true" or "[a, b]"') from None
    return FrozenMap(options)


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
        AfterValidator(_options),
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
