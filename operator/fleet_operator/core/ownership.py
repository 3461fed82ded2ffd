"""Whose an object's fields are: taking an object over, and giving it back. What it says otherwise never changes here.

Fields are owned by managers, and the server keeps the list. To take over is to add ours; those of others go off the
list only when git names them. To give back is to take ours off it: see `release`.
"""

from __future__ import annotations

from fleet.errors import ConflictError
from fleet.kit.adoption.managers import spec_managers
from fleet.kit.step import NotYetError, Take
from fleet.kube.objects import drop_managers, owned_by
from fleet.kube.runtime import Request
from fleet.names import OPERATOR
from fleet_operator.core import kinds

_CHANGED = "the object has been modified"  # in the server's words


class NotOursError(ConflictError):
    """An object of the name that we need exists, and is somebody else's."""


async def taken(request: Request, step: Take) -> None:
    """Take first the others' fields, then ours: in between it is nobody's, and the next pass goes on.

    Only as it was looked at: what was compared with git is what is taken.
    """
    own = step.object["metadata"]
    found = step.object
    if set(step.take_from) & set(spec_managers(found)):
        leaves = owned_by(step.take_from)
        found = await drop_managers(request.client, kinds.of(found), found, leaves, by=OPERATOR)
    if step.manifest is None:
        return
    guard = {"uid": own["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
    bound = {**step.manifest, "metadata": {**step.manifest["metadata"], **guard}}
    try:
        await request.write.apply(kinds.of(step.object), bound, force=False)
    except ConflictError as problem:
        if _CHANGED in problem.message:
            raise NotYetError("it changed since it was looked at, and is looked at again") from problem
        others = ", ".join(spec_managers(found)) or "somebody"
        raise NotOursError(
            f"{step.object['kind']} {own['name']} is managed by {others}, and fields that must change are theirs: "
            f"{problem.message}",
            hint=f"take them away with take_from={sorted(spec_managers(found))}",
        ) from problem
