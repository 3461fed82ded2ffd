"""The schema of a preview's JSON, field by field: what programs may rely on. docs/reference has it as a JSON schema.

A field that is added does not change `schemaVersion`; one that goes, or means another thing, does.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

SCHEMA = "fleet.dev/preview/v1"
ADDRESS = "https://fleet.dev/schemas/preview/v1.json"

Verb = Literal["create", "update", "delete", "adopt", "forget", "record", "unchanged", "conflict"]
Does = Literal[
    "create",
    "update in place",
    "restart",
    "scale",
    "upgrade",
    "adopt unchanged",
    "adopt with changes",
    "delete",
    "delete data",
    "forget",
    "record",
    "conflict",
    "nothing",
]
_STRICT = ConfigDict(extra="forbid", strict=True)


class Object(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    group: Annotated[str, Field(description='"" for the core group')]
    kind: str
    namespace: Annotated[str, Field(description='"" for objects of the cluster')]
    name: str


class Place(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    file: str
    line: int


class Change(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    path: Annotated[str, Field(description="Such as spec.containers[name=db].image")]
    before: Annotated[Any, Field(description='null: not there. A secret value is "(redacted)"')]
    after: Annotated[Any, Field(description='null: not there. A secret value is "(redacted)"')]


class Step(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    stack: str
    cluster: str
    verb: Annotated[Verb, Field(description="What is done to the object")]
    object: Object
    does: Annotated[Does, Field(description="What that does to whoever uses it")]
    effect: Annotated[str, Field(description="The same for people: rolling restart of 3 pods")]
    destructive: Annotated[bool, Field(description="Data, an object or the way back is gone afterwards")]
    note: NotRequired[Annotated[str, Field(description="The part of `effect` that `meanings` does not have")]]
    source: NotRequired[Annotated[Place, Field(description="The line of the stack that it comes from")]]
    reason: NotRequired[Annotated[str, Field(description="Why this verb, where it does not go without saying")]]
    meanings: NotRequired[Annotated[list[str], Field(description="What it means for an app")]]
    changes: NotRequired[list[Change]]
    drift: NotRequired[Annotated[Literal[True], Field(description="The cluster differs already; not of this change")]]
    objection: NotRequired[Annotated[str, Field(description="What the server said to a dry run of it")]]


class Pair(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    stack: str
    cluster: str
    planHash: NotRequired[Annotated[str, Field(description="Of this stack in this cluster alone")]]
    error: NotRequired[Annotated[str, Field(description="Why it cannot be planned or must not be done")]]
    note: NotRequired[Annotated[str, Field(description="Why nothing is done there: the stack is suspended")]]
    takenFrom: NotRequired[Annotated[str, Field(description="The repository whose stack it was")]]


class Revision(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    name: str
    commit: str
    subject: str


class Summary(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    create: int
    update: int
    delete: int
    adopt: int
    forget: int
    record: int
    unchanged: int
    conflict: int


class Document(TypedDict):
    """What a sync would do, or what a merge changes."""

    __pydantic_config__ = _STRICT  # type: ignore[misc]

    schemaVersion: Literal["fleet.dev/preview/v1"]
    depth: Annotated[Literal["live", "desired"], Field(description="Against the clusters, or git against git")]
    base: NotRequired[Annotated[Revision, Field(description="Only where two revisions are compared")]]
    head: NotRequired[Revision]
    tree: NotRequired[Annotated[str, Field(description="git's id of the files after the merge")]]
    planHash: Annotated[str, Field(description="The same change has the same hash, whatever the clusters are like")]
    changeSummary: Annotated[Summary, Field(description="How many objects of each verb")]
    destructive: Annotated[int, Field(description="How many steps are destructive")]
    clusters: Annotated[list[Pair], Field(description="Every stack in every cluster, with or without changes")]
    steps: Annotated[list[Step], Field(description="Destructive ones first, then by stack and cluster")]
    remarks: list[str]


def preview_schema() -> dict[str, Any]:
    """Return the document's schema as JSON schema, draft 2020-12."""
    schema = TypeAdapter(Document).json_schema()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ADDRESS}
    return {**head, **schema, "title": "fleet preview -o json"}


def check_preview(document: Any) -> None:
    """Raise pydantic's ValidationError for data that is no such document."""
    TypeAdapter(Document).validate_python(document)
