from __future__ import annotations

import pytest

from fleet.errors import AccessError, ConflictError, NotFoundError, ResourceError
from fleet.kube.client.errors import (
    OverloadedError,
    RequestTarget,
    UnansweredError,
    UnreachableError,
    error_of_connection,
    error_of_response,
    request_context,
)

PLACE = RequestTarget("eu-1", "https://10.0.0.1:6443", "eu-admin")


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", "/api/v1/namespaces/orders/configmaps/a", "get configmaps orders/a"),
        ("GET", "/api/v1/namespaces/orders/configmaps?limit=500", "list configmaps orders"),
        ("PATCH", "/apis/apps/v1/namespaces/orders/deployments/db?force=true", "patch deployments.apps orders/db"),
        ("DELETE", "/api/v1/namespaces/orders", "delete namespaces orders"),
        ("POST", "/apis/fleet.dev/v1alpha1/namespaces/orders/etcds", "create etcds.fleet.dev orders"),
        ("GET", "/apis", "get /apis"),
    ],
)
def test_a_request_is_named_by_verb_and_resource(method: str, path: str, words: str) -> None:
    assert str(request_context(method, path)) == words


def test_a_missing_right_says_how_to_check() -> None:
    body = {"kind": "Status", "message": 'configmaps is forbidden: User "x" cannot list resource "configmaps" in …'}
    error = error_of_response(PLACE, request_context("GET", "/api/v1/namespaces/orders/configmaps"), 403, body)
    assert isinstance(error, AccessError)
    assert "cluster eu-1: no right to list configmaps orders" in error.message
    assert error.hint == "check with: kubectl auth can-i list configmaps -n orders --context eu-admin"


def test_a_quota_or_an_admission_rule_is_no_matter_of_rights() -> None:
    body = {"kind": "Status", "message": 'pods "a" is forbidden: exceeded quota: small, requested: pods=1'}
    error = error_of_response(PLACE, request_context("PATCH", "/api/v1/namespaces/orders/pods/a"), 403, body)
    assert isinstance(error, ResourceError)
    assert "exceeded quota" in error.message


def test_a_binding_that_gives_more_than_its_maker_has_is_a_matter_of_rights() -> None:
    message = (
        'rolebindings.rbac.authorization.k8s.io "fleet-operator-shop" is forbidden: user "ci" (groups=["dev"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )
    what = request_context(
        "PATCH", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/fleet-operator-shop"
    )
    error = error_of_response(PLACE, what, 403, {"kind": "Status", "message": message})
    assert isinstance(error, AccessError)
    assert "rolebindings.rbac.authorization.k8s.io shop/fleet-operator-shop: it gives rights that you" in error.message
    assert "--verb=bind" in (error.hint or "")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AccessError),
        (404, NotFoundError),
        (409, ConflictError),
        (422, ResourceError),
        (429, OverloadedError),
        (504, UnansweredError),
    ],
)
def test_each_status_is_the_error_with_its_exit_code(status: int, kind: type[Exception]) -> None:
    assert type(error_of_response(PLACE, request_context("GET", "/api/v1/nodes"), status, {"message": "no"})) is kind


def test_a_field_that_a_kind_does_not_declare_is_a_refusal_though_the_server_says_500() -> None:
    message = (
        "failed to create typed patch object (orders/db; apps/v1, Kind=Deployment): errors:\n"
        '  .spec.template.spec.containers[name="c"].imagePullPolice: field not declared in schema\n'
        "  .spec.replica: field not declared in schema"
    )
    what = request_context("PATCH", "/apis/apps/v1/namespaces/orders/deployments/db")
    error = error_of_response(PLACE, what, 500, {"message": message})
    assert type(error) is ResourceError, "it is certain that nothing happened"
    assert error.field == 'spec.template.spec.containers[name="c"].imagePullPolice'
    assert "cluster eu-1 does not take deployments.apps orders/db: " in error.message
    assert "; spec.replica: field not declared in schema" in error.message
    assert type(error_of_response(PLACE, what, 500, {"message": "etcdserver: leader changed"})) is UnansweredError


def test_a_value_that_the_server_cannot_decode_is_a_refusal_too() -> None:
    message = (
        "failed to convert new object (orders/db; apps/v1, Kind=Deployment) to proper version: unable to convert "
        "unstructured object to apps/v1, Kind=Deployment: quantities must match the regular expression '^[0-9]'"
    )
    what = request_context("PATCH", "/apis/apps/v1/namespaces/orders/deployments/db")
    error = error_of_response(PLACE, what, 500, {"message": message})
    assert type(error) is ResourceError, "it is certain that nothing happened"
    assert (error.field, error.message) == (
        None,
        "cluster eu-1 does not take deployments.apps orders/db: quantities must match the regular expression '^[0-9]'",
    )


def test_a_cluster_that_cannot_be_reached_is_named_with_its_address_and_context() -> None:
    error = error_of_connection(
        PLACE, request_context("GET", "/api/v1/nodes"), ConnectionRefusedError(111, "Connection refused")
    )
    assert isinstance(error, UnreachableError) and isinstance(error, UnansweredError) and error.exit_code == 4
    for word in ("eu-1", "https://10.0.0.1:6443", "eu-admin", "refused"):
        assert word in str(error)
