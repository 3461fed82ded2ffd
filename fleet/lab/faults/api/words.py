"""From what was said to a fault of an API server. The command line and tests both come through here. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fleet.errors import ConfigurationError
from fleet.lab.faults.fault import Fault
from fleet.lab.proxy.act import Answer
from fleet.lab.proxy.match import Match
from fleet.lab.proxy.plan import Rule

ALL = Match()


@dataclass(frozen=True, slots=True)
class ApiWords:
    """Speaks of one cluster's API server. `share` is that of the requests that match; `seed` says which."""

    cluster: str

    def fail(
        self,
        status: int = 500,
        match: Match = ALL,
        *,
        share: float | None = None,
        retry_after: int | None = None,
        message: str = "",
        seed: int = 0,
    ) -> Fault:
        """Requests are answered with an error, and not carried out."""
        Rule(match, Answer(status, message, retry_after), share=share)
        own = {"status": status, "retry-after": retry_after, "message": message}
        return self._fault("fail-api", match, {**own, "share": share, "seed": seed})

    def slow(self, seconds: float, match: Match = ALL, *, share: float | None = None, seed: int = 0) -> Fault:
        """Requests are carried out so many seconds later."""
        if seconds <= 0:
            raise ConfigurationError(f"{seconds:g} s later is not later", hint="more than 0")
        return self._fault("slow-api", match, {"seconds": seconds, "share": share, "seed": seed})

    def forget(self, match: Match = ALL, *, after_events: int = 0, share: float | None = None, seed: int = 0) -> Fault:
        """Watches end with 410 after so many events: clients have to list anew."""
        return self._fault("forget-api", match, {"after-events": after_events, "share": share, "seed": seed})

    def skew(self, seconds: float, match: Match = ALL) -> Fault:
        """Clients see times in Leases that are so many seconds later than what is stored, or earlier if negative."""
        if not seconds:
            raise ConfigurationError("times that differ by 0 s do not differ", hint="positive for later, or negative")
        return self._fault("skew-leases", match, {"seconds": seconds})

    def _fault(self, kind: str, match: Match, options: dict[str, Any]) -> Fault:
        which = {name: value for name, value in asdict(match).items() if value != getattr(ALL, name)}
        return Fault(kind, self.cluster, ("kube-apiserver",), {**options, **which})
