"""What an evaluation is, as plain data for the stages after it: clusters, stacks with what they want, problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fleet.errors import ConfigurationError, Source
from fleet.objects.desired import Desired
from fleet.text import count_noun


@dataclass(frozen=True, slots=True)
class ClusterData:
    """A cluster of clusters/*.py. With neither context nor secret nor pull, its name is the kubeconfig context."""

    name: str
    labels: dict[str, str]
    context: str | None
    secret: str | None
    pull: bool
    source: Source

    @property
    def kubeconfig_context(self) -> str:
        return self.context or self.name


@dataclass(frozen=True, slots=True)
class RolloutData:
    """The clusters of a stack, wave by wave, and what speaks for and against going on; see fleet.Rollout."""

    waves: tuple[tuple[str, ...], ...]
    soak: str
    timeout: str
    max_unavailable: int = 0
    approve: tuple[int, ...] = ()
    windows: tuple[str, ...] = ()
    timezone: str = "UTC"
    freeze: bool = False
    on_failure: str = "stop"
    rollback_after: str = "2m"
    rest: bool = False  # the last wave is of clusters that are in none


@dataclass(frozen=True, slots=True)
class StackResult:
    """A stack and what it wants in each of its clusters (sorted by name)."""

    name: str
    source: Source
    clusters: tuple[str, ...]
    rollout: RolloutData
    desired: tuple[Desired, ...]
    needs: tuple[str, ...] = ()  # stacks whose exports it reads: they come first
    drift: str = "repair"  # or "report": what `fleet serve` does about what others change


@dataclass(frozen=True, slots=True)
class Reads:
    """What a file of stacks was made from: if none of that changed, nor clusters nor fleet, the result is the same."""

    file: str
    files: tuple[str, ...]  # of the repository, read or imported
    directories: tuple[str, ...]  # of the repository, listed: a new file there counts


class Problem(ConfigurationError):  # noqa: N818 - the word of the domain
    """A mistake in the user's files, with the line itself and what the code printed."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        source: Source | None = None,
        field: str | None = None,
        output: str = "",
    ) -> None:
        super().__init__(message, hint=hint, source=source, field=field)
        self.excerpt = ""  # the line itself, once somebody looked it up
        self.output = output

    def __str__(self) -> str:
        text, _, hint = ConfigurationError.__str__(self).partition("\n  hint: ")
        if self.excerpt and self.source:
            text += f"\n  {self.source.line:>4} │ {self.excerpt}"
        if self.hint:
            text += f"\n  hint: {hint}"
        if self.output:
            text += "\n  it printed:\n" + "\n".join(f"    {line}" for line in self.output.splitlines())
        return text


class Problems(ConfigurationError):  # noqa: N818
    """Several at once, so that all are shown and not only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(count_noun(len(self.problems), "problem"))

    def __str__(self) -> str:
        return "\nerror: ".join(map(str, self.problems))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All or nothing: with any problem there is nothing to plan from, for what is missing may only be broken."""

    clusters: tuple[ClusterData, ...]
    stacks: tuple[StackResult, ...]  # those others read from first, then by name
    problems: tuple[Problem, ...] = ()
    reads: tuple[Reads, ...] = field(default=())
    foreign: tuple[str, ...] = ()  # files outside that were looked at: with any, the same files may mean another thing
    printed: tuple[tuple[str, str], ...] = ()  # by files of stacks: the last lines, for people who look for a mistake

    def check(self) -> Evaluation:
        """Itself when there is no problem; otherwise the problems are raised."""
        if len(self.problems) == 1:
            raise self.problems[0]
        if self.problems:
            raise Problems(self.problems)
        return self
