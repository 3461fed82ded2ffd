"""The generated definitions: as checked in, structural, and well said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.tools.reference.python import apps, describe_app
from fleet.apps.etcd import DRIVER
from fleet.apps.registry import driver
from fleet.cli import run
from fleet.render.crd import crd_yaml, definition, definitions
from tests.app_types import QUEUE, installed, write_package
from tests.kit.nats import NATS

ROOT = Path(__file__).parent.parent.parent
SCHEMA = definitions()["fleet.dev_etcds.yaml"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


def test_crds_are_as_the_models_are() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "crds").glob("*.yaml")}
    assert there == {name: crd_yaml(made) for name, made in definitions().items()}, "run `fleet crds --write crds`"


def test_a_type_without_short_names_says_nothing_of_them() -> None:
    """An empty list is not stored, so that whoever applies the definition next would be told of a conflict."""
    assert "shortNames" not in definition(NATS)["spec"]["names"]
    assert definition(DRIVER)["spec"]["names"]["shortNames"] == ["ec"]


@pytest.mark.parametrize(
    ("path", "schema"), list(nodes(SCHEMA)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_part_of_the_schema_is_structural_and_described(path: str, schema: dict[str, Any]) -> None:
    assert schema["type"] in ("object", "array", "string", "integer", "boolean", "number")
    assert not {"$ref", "anyOf", "oneOf", "allOf", "title", "const", "nullable"} & schema.keys()
    described = path == ".metadata" or path.endswith("[]") or bool(schema.get("description"))
    assert described, f"{path} has no description: write a docstring under the field"
    assert set(schema.get("required", ())) <= set(schema.get("properties", ()))


def test_defaults_and_rules_are_those_of_the_model() -> None:
    spec = SCHEMA["properties"]["spec"]["properties"]
    assert (spec["members"]["default"], spec["storage"]["default"]) == (3, "8Gi")
    assert spec["volume"]["default"] == {"onDelete": "keep", "onScaleIn": "delete"}
    assert spec["resources"]["properties"]["memory"]["default"] == "512Mi"
    assert spec["members"]["x-kubernetes-validations"][0]["rule"] == "self % 2 == 1"
    assert SCHEMA["properties"]["spec"]["required"] == ["version"]
    assert "default" not in spec["backup"]


def test_the_status_says_what_people_ask_for() -> None:
    status = SCHEMA["properties"]["status"]["properties"]
    assert {"version", "desiredVersion", "members", "leader", "identity", "lastBackup", "conditions"} <= status.keys()
    assert "observedGeneration" in status["conditions"]["items"]["properties"]
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]


def test_the_command_prints_what_kubectl_can_apply(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "etcd"]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == [definitions()["fleet.dev_etcds.yaml"]]
    assert run(["crds", "-o", "json"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "List"


def test_the_command_names_unknown_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "etdc"]) == 6
    assert "did you mean 'etcd'?" in capsys.readouterr().err


def test_the_command_writes_checks_and_cleans_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fleet.dev_gone.yaml").write_text("old")
    (tmp_path / "mine.yaml").write_text("mine")
    assert run(["crds", "--check", str(tmp_path)]) == 7
    differing = sorted([*definitions(), "fleet.dev_gone.yaml"])
    assert f"{', '.join(differing)} differ" in capsys.readouterr().err
    assert run(["crds", "--write", str(tmp_path)]) == 0
    assert run(["crds", "--check", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*definitions(), "mine.yaml"])


def test_a_type_that_takes_nothing_over_does_not_offer_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path)
    with installed(monkeypatch, tmp_path):
        made = definitions()["fleet.dev_queues.yaml"]
    spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert "adopt" not in spec["properties"]
    assert "adopt" not in str(spec["x-kubernetes-validations"]), "an API server refuses a rule about no field"
    assert [rule["message"] for rule in spec["x-kubernetes-validations"]] == ["must leave somebody to work"]
    assert "adopt" in SCHEMA["properties"]["spec"]["properties"]


def test_a_rule_that_reads_what_nobody_can_say_is_an_error_of_its_author(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(tmp_path, text=QUEUE.replace("self.spareMembers < ", "self.adopt.identity != '' && 1 < "))
    with installed(monkeypatch, tmp_path), pytest.raises(ValueError, match="Queue cannot be taken over, and a rule"):
        definitions()


def test_the_reference_of_a_type_is_made_from_the_package_that_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = 'class Shard(fleet.App, frozen=True):\n    """A part of it."""\n'
    extra = f'{QUEUE}\n\n{shard}\n\n__all__ = ["Queue", "Shard"]\n'
    write_package(tmp_path, "acme-queue", text=extra)
    with installed(monkeypatch, tmp_path):
        queue = driver("Queue")
        assert queue is not None
        page = "\n".join(describe_app(queue))
        assert "## Queue" not in apps()
    assert "### acme_queue.Shard" in page
    assert "The operator can: scale, upgrade. It cannot: downgrade, backup, restore, adopt." in page
    assert "How many of them do nothing." in page
