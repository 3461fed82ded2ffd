"""No secret value goes into a branch: whoever can read the branch could read it, and so could every clone, for ever.

What is secret is decided where everything decides it: a Secret by its kind, other kinds by what their definition marks.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet.errors import PolicyError
from fleet.evaluate.result import StackResult
from fleet.model.secrecy import declared_secrecy, secret_texts


def check_secrets(stacks: Iterable[StackResult], clusters: frozenset[str]) -> None:
    """Refuse values of Secrets for these clusters."""
    for stack in stacks:
        for desired in stack.desired:
            if desired.cluster not in clusters:
                continue
            known = declared_secrecy(one.manifest for one in desired.objects)
            for one in desired.objects:
                place = next(iter(secret_texts(one.manifest, known)), None)
                if place is not None:
                    raise PolicyError(
                        f"stack {stack.name}: {one.key} has secret values, and a rendered set is in git for all who "
                        "can read it",
                        hint="name a Secret that is there by fleet.SecretRef and make it in the cluster, or decide "
                        "otherwise with --with-secrets",
                        source=one.source,
                        field=".".join(place[0]),
                    )
