"""Which requests a rule is about. What is not said matches everything."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.lab.proxy.call import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """All that is said has to be so. `resource="pods"` is pods and not `pods/log`; `agent` is how its name begins."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, where plans come from JSON

    verb: str = ""
    group: str | None = None
    resource: str = ""
    namespace: str = ""
    name: str = ""
    agent: str = ""
    path: str = ""  # contained in the path or its query
    writes: bool | None = None

    def __call__(self, call: Call) -> bool:
        return (
            (not self.verb or call.verb == self.verb)
            and (self.group is None or call.group == self.group)
            and (not self.resource or call.resource == self.resource)
            and (not self.namespace or call.namespace == self.namespace)
            and (not self.name or call.name == self.name)
            and call.agent.startswith(self.agent)
            and self.path in call.path
            and (self.writes is None or call.writes == self.writes)
        )
