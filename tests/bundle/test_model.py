"""The files of a rendered set: one form, and nothing is believed of what is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from fleet.bundle import storage
from fleet.bundle.model import Bundle, BundleBudget
from fleet.bundle.rollout import BundleHeader, plan_bundles
from fleet.bundle.storage import INDEX, check_bundle, encode_bundle, read_index, read_stack, stack_path
from fleet.errors import ConfigurationError, Source
from fleet.evaluate.result import ClusterData, Evaluation, RolloutData, StackResult
from fleet.objects.desired import Desired, Key, Object
from fleet.objects.normalise import manifest_hash

REVISION = "a" * 40
NOON = 1_767_268_800.0  # Thursday, 2026-01-01T12:00:00Z
HEAD = BundleHeader("example.com/team/fleet", REVISION, "A change", BundleBudget(10, 0.1), "", "fleet/status")
HERE = Source("stacks/orders.py", 3)


def manifest(name: str, **data: str) -> dict[str, Any]:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "orders"},
        "data": {"é": "\u2028", **data},
    }


def objects(**data: str) -> tuple[Object, ...]:
    return (
        Object(manifest("a", **data), Source("stacks/orders.py", 9), hash=manifest_hash(manifest("a", **data))),
        Object(
            manifest("b"),
            Source("stacks/orders.py", 10),
            app="Etcd",
            depends_on=(Key("", "ConfigMap", "orders", "a"),),
            protect=True,
            ignore_changes=("spec.replicas",),
        ),
    )


def evaluation(**data: str) -> Evaluation:
    cluster = ClusterData("edge-1", {"env": "prod"}, None, None, True, Source("clusters/all.py", 1))
    desired = Desired("orders", "edge-1", objects(**data), {"port": 80}, HERE)
    rollout = RolloutData((("edge-1",),), "5m", "15m", windows=("Mon-Fri 09:00-17:00",))
    return Evaluation((cluster,), (StackResult("orders", HERE, ("edge-1",), rollout, (desired,), drift="report"),))


def rendered(**data: str) -> Bundle:
    return plan_bundles(evaluation(**data), ["edge-1"], HEAD, {}, {}, now=NOON).bundles["edge-1"]


def read(files: dict[str, bytes], cluster: str = "edge-1") -> Bundle:
    index = read_index(files[INDEX], "rendered", cluster)
    stacks = {one.stack: read_stack(files[stack_path(one.stack)], "rendered", one.stack) for one in index.stacks}
    return check_bundle(Bundle(index, stacks), files, "rendered")


def test_what_is_read_is_what_was_written_and_unchanged_stacks_are_unchanged_files() -> None:
    made = rendered()
    assert made.stacks, "it is a Thursday noon, within the window"
    files = encode_bundle(made)
    found = read(files)
    assert (found.index, found.stacks) == (made.index, made.stacks)
    assert all(one.hash == manifest_hash(one.manifest) for one in found.stacks["orders"].objects)
    assert encode_bundle(found) == files, "hashes are not written"
    (stack,) = found.evaluation().stacks
    (wanted,) = evaluation().stacks
    assert (stack.desired, stack.drift, stack.rollout.windows) == (wanted.desired, "report", wanted.rollout.windows)
    assert all(type(key) is Key for one in stack.desired[0].objects for key in one.depends_on)
    later = encode_bundle(replace(made, index=replace(made.index, revision="b" * 40)))
    assert [name for name in files if files[name] != later[name]] == [INDEX]


def test_the_same_stacks_make_the_same_bytes_in_any_order_of_keys() -> None:
    turned = rendered()
    file = turned.stacks["orders"]
    backwards = tuple(replace(one, manifest=dict(reversed(one.manifest.items()))) for one in file.objects)
    assert encode_bundle(replace(turned, stacks={"orders": replace(file, objects=backwards)})) == encode_bundle(
        rendered()
    )


def damaged(name: str, **fields: Any) -> dict[str, bytes]:
    files = encode_bundle(rendered())
    data = {**orjson.loads(files[name]), **fields}
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return {**files, name: orjson.dumps(data, option=options)}


STACK = stack_path("orders")
PART = {"stack": "orders", "revision": REVISION, "content": "0" * 32}
BARE: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
HOSTILE: dict[str, tuple[dict[str, bytes], str]] = {
    "another schema": (damaged(INDEX, schema="fleet.dev/rendered/v2"), "schema: 'fleet.dev/rendered/v2'"),
    "another schema of a stack": (damaged(STACK, schema=1), "stacks/orders.json.*schema"),
    "another cluster's": (damaged(INDEX, cluster="edge-2"), "the set is for 'edge-2', and this is 'edge-1'"),
    "a field that nobody knows": (damaged(INDEX, run="sh"), "fleet.json.*with or without run"),
    "a number for a text": (damaged(INDEX, subject=7), "Index.subject: int in the place of str"),
    "a revision that is none": (damaged(INDEX, revision="main"), "revision"),
    "a path for a name": (damaged(INDEX, stacks=[{**PART, "stack": "../orders"}]), "'../orders' as a name"),
    "a path for a waiting name": (damaged(INDEX, waiting={"a/b": "x"}), "'a/b' as a name"),
    "a stack twice": (damaged(INDEX, stacks=[PART, PART]), "stacks"),
    "a stack that is also elsewhere": (damaged(INDEX, elsewhere=["orders"]), "stacks"),
    "other content": (damaged(INDEX, stacks=[PART]), "stacks.orders.content: not that of"),
    "a budget below nothing": (damaged(INDEX, budget={"deletions": -1, "share": 0.1}), "budget"),
    "more than all": (damaged(INDEX, budget={"deletions": 1, "share": 1.5}), "budget"),
    "an account that is none": (damaged(INDEX, account="system:masters"), "account"),
    "a branch that is an option": (damaged(INDEX, status_branch="--force"), "status_branch"),
    "a long message": (damaged(INDEX, waiting={"orders": "x" * 2_000}), "waiting.orders"),
    "another stack's file": (damaged(STACK, stack="other"), "stacks/orders.json.*stack: 'other'"),
    "an object without a name": (
        damaged(STACK, objects=[{"manifest": {"kind": "X"}, "source": {"file": "a"}}]),
        "meta",
    ),
    "a name that is no text": (
        damaged(STACK, objects=[{"manifest": {**BARE, "metadata": {"name": 7}}, "source": {"file": "a"}}]),
        "without apiVersion, kind or name",
    ),
    "a hash": (damaged(STACK, objects=[{"manifest": BARE, "source": {"file": "a"}, "hash": "x"}]), "a hash"),
    "an object twice": (damaged(STACK, objects=[{"manifest": BARE, "source": {"file": "a"}}] * 2), "one twice"),
    "a window that is none": (damaged(STACK, windows=["always"]), "windows: 'always' is none"),
    "a timezone that is a file": (damaged(STACK, timezone="../../../etc/passwd"), "timezone"),
    "a word for drift": (damaged(STACK, drift="ignore"), "drift"),
    "a need that is not there": (damaged(STACK, needs=["other"]), "stacks.orders.needs: other"),
    "no JSON": ({**encode_bundle(rendered()), STACK: b"\xff"}, "stacks/orders.json"),
    "a list": ({**encode_bundle(rendered()), INDEX: b"[]\n"}, "schema"),
    "another form": ({**encode_bundle(rendered()), INDEX: encode_bundle(rendered())[INDEX].rstrip()}, "another form"),
    "a key twice": (
        {
            **encode_bundle(rendered()),
            INDEX: encode_bundle(rendered())[INDEX].replace(b"{\n", b'{\n  "account": "a/b",\n', 1),
        },
        "another form",
    ),
    "a file too many": ({**encode_bundle(rendered()), stack_path("more"): b"{}"}, "stacks/more.json is in no list"),
    "nesting without end": ({**encode_bundle(rendered()), STACK: b"[" * 100_000}, "stacks/orders.json"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_rendered_set_is_refused_with_its_file_and_field(what: str) -> None:
    files, said = HOSTILE[what]
    with pytest.raises(ConfigurationError, match=f"(?s){said}") as refused:
        read(files)
    assert str(refused.value).startswith("rendered:")
    assert refused.value.hint


def test_a_file_that_is_too_large_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MOST_BYTES", 100)
    with pytest.raises(ConfigurationError, match="more than 100 bytes"):
        read(encode_bundle(rendered()))
