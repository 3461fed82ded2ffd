"""Which fields are secret, and objects, changes and texts without them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fleet.errors import ResourceError
from fleet.objects.compare import compare
from fleet.objects.desired import Key
from fleet.objects.fields import Fields
from fleet.objects.redaction import (
    LAST_APPLIED,
    REDACTED,
    Secrecy,
    SecretValues,
    declared_secrecy,
    definition_secrecy,
    is_secret,
    marked_fields,
    redact_manifest,
)

CANARY = "hunter2-canary"
ENCODED = base64.b64encode(CANARY.encode()).decode()
TOKEN = {"type": "string", "format": "password"}


def secret(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **fields}


def definition(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "vaults.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Vault", "plural": "vaults"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        },
    }


def vault(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Vault", "metadata": {"name": "v"}, "spec": spec}


def test_a_secret_is_known_by_its_kind_however_it_is_written() -> None:
    assert is_secret(Key("", "Secret", "a", "b"))
    assert is_secret(Key("", "secret", "a", "b"))
    assert not is_secret(Key("", "ConfigMap", "a", "b"))
    assert not is_secret(Key("example.com", "Secret", "a", "b"))


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_a_shown_secret_has_the_names_of_its_entries_and_cannot_be_applied(field: str) -> None:
    shown = redact_manifest(secret(**{field: {"password": CANARY}}))
    assert shown["data"] == {"password": REDACTED}
    assert "stringData" not in shown


def test_a_copy_in_an_annotation_is_hidden_too() -> None:
    copy = json.dumps(secret(data={"password": ENCODED}))
    shown = redact_manifest({**secret(), "metadata": {"name": "s", "annotations": {LAST_APPLIED: copy}}})
    assert ENCODED not in json.dumps(shown)


def test_secrets_inside_a_list_are_hidden() -> None:
    shown = redact_manifest({"apiVersion": "v1", "kind": "List", "items": [secret(data={"a": CANARY}), vault()]})
    assert CANARY not in json.dumps(shown)
    assert shown["items"][1] == vault()


def test_fields_that_a_definition_marks_are_found_everywhere_in_it() -> None:
    schema = definition(
        token=TOKEN,
        users={"type": "array", "items": {"type": "object", "properties": {"password": TOKEN}}},
        keys={"type": "object", "additionalProperties": TOKEN},
        either={"anyOf": [TOKEN, {"type": "integer"}]},
        plain={"type": "string"},
    )["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert set(marked_fields(schema)) == {
        ("spec", "token"),
        ("spec", "users", "password"),
        ("spec", "keys", "*"),
        ("spec", "either"),
    }


def test_marked_fields_of_a_custom_kind_are_hidden_and_others_shown() -> None:
    known = declared_secrecy([secret(), definition(token=TOKEN, keys={"additionalProperties": TOKEN})])
    shown = redact_manifest(vault(token=CANARY, keys={"a": CANARY}, size=3), known)
    assert shown["spec"] == {"token": REDACTED, "keys": {"a": REDACTED}, "size": 3}


def test_a_schema_without_an_end_is_not_followed_for_ever() -> None:
    endless: dict[str, Any] = {"type": "object"}
    endless["properties"] = {"again": endless}
    assert marked_fields(endless) == ()


def changes(before: dict[str, Any], after: dict[str, Any], owned: Fields | None = None) -> str:
    known = definition_secrecy(
        definition(
            token=TOKEN,
            users={"items": {"properties": {"password": TOKEN}}},
            all={"type": "array", "items": TOKEN},
        )
    )
    key = Key.of(after)
    return repr(compare(after, before, owned, key=key, strict=True, secret=known.of(key)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"token": "old-canary"}, {"token": CANARY}),
        ({}, {"token": CANARY}),
        ({"users": []}, {"users": [{"name": "a", "password": CANARY}]}),
        ({"users": [{"name": "a", "password": "old-canary"}]}, {"users": [{"name": "a", "password": CANARY}]}),
        ({"all": ["old-canary"]}, {"all": [CANARY, "more-canary"]}),
    ],
)
def test_a_comparison_lets_no_secret_value_out(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = changes(vault(**before), vault(**after))
    assert REDACTED in found
    assert "canary" not in found
    without = {key: value for key, value in vault(**after).items() if key != "spec"}
    assert "canary" not in changes(without, vault(**after))


def test_what_an_item_of_a_list_is_known_by_may_be_secret_itself() -> None:
    owned: Fields = {"f:spec": {"f:users": {'k:{"password":"old-canary"}': {".": {}, "f:password": {}}}}}
    before, after = vault(users=[{"password": "old-canary"}]), vault(users=[{"password": CANARY}])
    found = changes(before, after, owned)
    assert "canary" not in found
    assert f"password={REDACTED}" in found
    owned = {"f:spec": {"f:all": {'v:"old-canary"': {}}}}
    found = changes(vault(all=["old-canary"]), vault(all=[CANARY]), owned)
    assert "canary" not in found
    assert f"[{REDACTED}]" in found


def test_values_are_taken_out_of_texts_in_every_form() -> None:
    text = 'line "one"\nsecond-line-of-it'
    hidden = SecretValues.of([secret(stringData={"a": CANARY, "b": text, "c": "ab"}, data={"d": "cGxhaW4tdGV4dA=="})])
    said = (
        f'Invalid value: "{CANARY}": {ENCODED}; {json.dumps(text)}; second-line-of-it; plain-text; cGxhaW4tdGV4dA==; '
        'is "ab" a label?'
    )
    cleaned = hidden.redact(said)
    for part in (CANARY, ENCODED, "second-line", "plain-text", "cGxhaW4", '"ab"'):
        assert part not in cleaned
    assert "is" in cleaned
    assert "label?" in cleaned


def test_the_copy_of_a_former_secret_is_taken_out_of_texts() -> None:
    former = json.dumps(secret(data={"password": ENCODED}))
    now = {**secret(data={"password": "bmV3"}), "metadata": {"name": "s", "annotations": {LAST_APPLIED: former}}}
    assert SecretValues.of([now]).redact(f"{CANARY} {ENCODED}") == f"{REDACTED} {REDACTED}"


def test_values_of_marked_fields_are_taken_out_of_texts_and_others_not() -> None:
    known = Secrecy({("example.com", "Vault"): (("spec", "token"),)})
    hidden = SecretValues.of([vault(token=CANARY, size="large-one")], known)
    assert hidden.redact(f"{CANARY} large-one") == f"{REDACTED} large-one"


def test_numbers_that_a_server_quotes_are_taken_out() -> None:
    hidden = SecretValues.of([secret(data={"pin": 98, "port": 54321})])
    said = hidden.redact("got &value.valueUnstructured{Value:98} and 54321")
    assert said == f"got &value.valueUnstructured{{Value:{REDACTED}}} and {REDACTED}"


def test_every_text_of_an_error_is_cleaned() -> None:
    problem = ResourceError(f"bad {CANARY}", hint=f"not {CANARY}", field=f"a[{CANARY}]")
    SecretValues.of([secret(stringData={"a": CANARY})]).redact_error(problem)
    assert "canary" not in f"{problem} {problem!r} {problem.hint} {problem.field}"


def test_names_that_everybody_sees_stay_readable() -> None:
    hidden = SecretValues.of([secret(stringData={"user": "orders", "password": CANARY})], public={"orders", "eu-1"})
    assert hidden.redact(f"patch orders/db: {CANARY}") == f"patch orders/db: {REDACTED}"


def test_nothing_hidden_costs_nothing_and_shows_everything() -> None:
    hidden = SecretValues.of([vault(token="x")])
    assert not hidden
    assert hidden.redact("x") == "x"
    assert "canary" not in repr(SecretValues([CANARY]))
