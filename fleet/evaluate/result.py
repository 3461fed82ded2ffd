"""The result of an evaluation as plain data for the later stages: clusters, stacks with their objects, problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fleet.errors import ConfigurationError, Source
from fleet.objects.desired import Desired
from fleet.text import count_noun


@dataclass(frozen=True, slots=True)
class ClusterData:
    """A cluster of clusters/*.py. Without context, secret and pull, its name is the kubeconfig context."""

    name: str
    labels: dict[str, str]
    context: str | None
    secret: str | None
    pull: bool
    source: Source

    @property
    def kubeconfig_context(self) -> str:
        """Return the context of the user's kubeconfig that reaches the cluster."""
        return self.context or self.name


@dataclass(frozen=True, slots=True)
class RolloutData:
    """The clusters of a stack, wave by wave, and the conditions for the next wave; see fleet.Rollout."""

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
    rest: bool = False  # whether the last wave is of the clusters that no wave names


@dataclass(frozen=True, slots=True)
class StackResult:
    """A stack and its desired objects in each of its clusters (sorted by name)."""

    name: str
    source: Source
    clusters: tuple[str, ...]
    rollout: RolloutData
    desired: tuple[Desired, ...]
    needs: tuple[str, ...] = ()  # stacks that come before it, such as those whose exports it reads
    drift: str = "repair"  # or "report": what `fleet serve` does about changes of other field managers


@dataclass(frozen=True, slots=True)
class Reads:
    """The files that a result was made from: if they, the clusters and fleet are the same, so is the result."""

    file: str
    files: tuple[str, ...]  # of the repository, read or imported
    directories: tuple[str, ...]  # of the repository, listed: a new file in them counts


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
        self.excerpt = ""  # the line itself, once the parent has read it
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
    """Several problems as one error, so that the user sees all of them and not only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(count_noun(len(self.problems), "problem"))

    def __str__(self) -> str:
        return "\nerror: ".join(map(str, self.problems))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The clusters and stacks of a repository, or its problems.

    With any problem there are no stacks to plan from, because a stack that is missing may only be broken.
    """

    clusters: tuple[ClusterData, ...]
    stacks: tuple[StackResult, ...]  # each after the stacks that it needs, otherwise by name
    problems: tuple[Problem, ...] = ()
    reads: tuple[Reads, ...] = field(default=())
    foreign: tuple[
        str, ...
    ] = ()  # files read outside of the repository: with any, the result may change without a commit
    printed: tuple[tuple[str, str], ...] = ()  # file of stacks and the last lines it printed

    def check(self) -> Evaluation:
        """Return the evaluation itself if it has no problem; raise its Problem or Problems otherwise."""
        if len(self.problems) == 1:
            raise self.problems[0]
        if self.problems:
            raise Problems(self.problems)
        return self
