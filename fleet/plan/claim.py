"""For whom a plan is made. A stack's name is not enough: two repositories may have one of the same name.

Whose a stack is stands in its inventory. One without an owner (made before owners were recorded) is claimed with the
next change; one of another repository is refused, unless a person names that one.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.errors import ConflictError, Source
from fleet.plan.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Claim:
    """A repository, and former names that a person said are right."""

    repository: str = ""  # its identity; "": not known, and then only what nobody owns is its own
    take_over: frozenset[str] = frozenset()  # repositories whose stacks become this one's
    renamed_from: frozenset[str] = frozenset()  # names that a cluster may have had before

    def covers(self, inventory: Inventory) -> bool:
        """Whether the stack may be planned for this repository."""
        return inventory.repository in ("", self.repository) or inventory.repository in self.take_over

    def check(self, inventory: Inventory, cluster: str, source: Source | None = None) -> None:
        """Raise ConflictError if the stack in this cluster is not this repository's."""
        if not self.covers(inventory):
            raise _belongs_to_another(inventory, cluster, self.repository, source)
        if inventory.cluster != cluster and inventory.cluster not in self.renamed_from:
            raise ConflictError(
                f"stack {inventory.stack} is in cluster {cluster} already, under the name {inventory.cluster}",
                hint="are these two names for one cluster? Let each have its own kubeconfig context; "
                f"if the cluster was renamed, sync once with --renamed-from {inventory.cluster}",
                source=source,
            )


def _belongs_to_another(inventory: Inventory, cluster: str, ours: str, source: Source | None) -> ConflictError:
    owner = inventory.repository
    this = f"this one is {ours}" if ours else "this one has no name, no remote and no commit"
    return ConflictError(
        f"stack {inventory.stack} in cluster {cluster} belongs to the repository {owner}, and {this}",
        hint="give the stack another name. If this is the same fleet under a new address, keep its name: "
        f'name = "{owner}" under [fleet] in fleet.toml. '
        f"To take the stack away from the other one, once: --take-over {owner}",
        source=source if source and source.file else None,
    )
