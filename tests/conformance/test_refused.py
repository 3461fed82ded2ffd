"""What an API server refuses (tests/render/test_crds_served.py), the model and the plan refuse alike."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.apps import Etcd
from fleet.apps.etcd import DRIVER
from fleet.apps.impact import explain
from fleet.errors import FleetError
from fleet.model.app import API_VERSION
from tests.render.test_crds_served import FORBIDDEN, WRONG


def resource(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "Etcd", "metadata": {"name": "db"}, "spec": {"version": "3.5", **spec}}


@pytest.mark.parametrize(("spec", "said"), WRONG, ids=str)
def test_a_spec_that_the_server_refuses_is_refused_by_the_model(spec: dict[str, Any], said: str) -> None:
    """By the model itself, or by its rules where members that are older than a rule must be read all the same."""
    try:
        made = Etcd("db", **{"version": "3.5", **_as_python(spec)})
    except (FleetError, ValueError, TypeError):
        return
    assert DRIVER.validate(made), f"it is taken, and the server says that it {said}"
    assert explain("Etcd", None, resource(spec)).problems


@pytest.mark.parametrize(("before", "after", "said"), FORBIDDEN, ids=str)
def test_a_change_that_the_server_refuses_is_refused_by_the_plan(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    meaning = explain("Etcd", resource(before), resource(after))
    assert meaning.problems, f"a plan takes it, and the server says that it {said}"
    assert meaning.restarts == 0


def _as_python(spec: dict[str, Any]) -> dict[str, Any]:
    """Return fields by the names that stacks have for them."""
    return {_field(name): _as_python(value) if isinstance(value, dict) else value for name, value in spec.items()}


def _field(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
