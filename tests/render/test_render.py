"""What a stack declared, as objects: complete, in order, and the same to the byte every time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest

import fleet
from fleet import Alias, Options
from fleet.apps import Etcd
from fleet.errors import ConfigurationError
from fleet.objects.desired import Desired, Key, Object
from fleet.render import render
from tests.app_types import installed, write_package

EU = fleet.Cluster("eu-1", labels={"tier": "gold"})
OWNED = {"app.kubernetes.io/managed-by": "fleet", "fleet.dev/stack": "shop"}
ROOT = Path(__file__).parent.parent.parent


def rendered(body: Callable[[], object], **options: Any) -> Desired:
    @fleet.stack(clusters="eu-1", name="shop", **options)
    def stack(cluster: fleet.Cluster) -> None:
        body()

    return render(stack(EU), EU)


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def by_name(desired: Desired) -> dict[str, Object]:
    return {one.key.name: one for one in desired.objects}


def test_an_app_becomes_a_custom_resource_in_the_stacks_own_namespace() -> None:
    namespace, binding, app = rendered(lambda: Etcd("db", version="3.5", members=5)).objects
    assert namespace.manifest == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"labels": OWNED, "name": "shop"},
    }
    assert namespace.retain_on_delete
    assert app.manifest == {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "Etcd",
        "metadata": {
            "labels": {"app.kubernetes.io/instance": "db", "app.kubernetes.io/name": "etcd", **OWNED},
            "name": "db",
            "namespace": "shop",
        },
        "spec": {"members": 5, "version": "3.5"},
    }
    assert (app.app, app.depends_on) == ("Etcd", (namespace.key, binding.key))


def test_the_operator_gets_rights_where_apps_are_before_they_come_and_until_they_are_gone() -> None:
    def body() -> None:
        Etcd("a", version="3.5")
        Etcd("b", version="3.5")
        Etcd("far", version="3.5", namespace="data", opts=Options(retain_on_delete=True))
        fleet.Manifest(config_map("alone", namespace="plain"))

    made = rendered(body).objects
    bindings = {one.key.namespace: one for one in made if one.key.kind == "RoleBinding"}
    assert {place: one.key.name for place, one in bindings.items()} == {
        "shop": "fleet-operator-shop",
        "data": "fleet-operator-shop",
    }
    assert bindings["shop"].manifest == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"labels": OWNED, "name": "fleet-operator-shop", "namespace": "shop"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fleet-operator-apps"},
        "subjects": [{"kind": "ServiceAccount", "name": "fleet-operator", "namespace": "fleet-system"}],
    }
    for app in (one for one in made if one.app):
        assert bindings[app.key.namespace].key in app.depends_on
    assert bindings["shop"].depends_on == (Key("", "Namespace", "", "shop"),)
    assert (bindings["shop"].retain_on_delete, bindings["data"].retain_on_delete) == (False, True)


def test_a_binding_that_the_stack_declares_itself_is_taken_as_it_is() -> None:
    def body() -> None:
        Etcd("db", version="3.5")
        own = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}
        fleet.Manifest({**own, "metadata": {"name": "fleet-operator-shop", "annotations": {"by": "hand"}}})

    _, binding, app = rendered(body).objects
    assert binding.manifest["metadata"]["annotations"] == {"by": "hand"}
    assert binding.key in app.depends_on


def test_a_namespace_that_the_stack_declares_itself_is_taken_as_it_is() -> None:
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}}

    def body() -> None:
        Etcd("db", version="3.5")
        fleet.Manifest(own, opts=Options(adopt=True))

    namespace, binding, app = rendered(body).objects
    assert namespace.manifest["metadata"]["labels"] == {"team": "a", **OWNED}
    assert (namespace.adopt, namespace.retain_on_delete) == (True, False)
    assert app.depends_on == (namespace.key, binding.key)


def test_no_namespace_is_made_when_nothing_lives_in_it() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}}
    assert [one.key.kind for one in rendered(lambda: fleet.Manifest(role)).objects] == ["ClusterRole"]
    assert rendered(lambda: None).objects == ()


def test_namespaces_that_are_always_there_are_nobodys() -> None:
    made = rendered(lambda: Etcd("a", version="3.5"), namespace="default").objects
    assert [one.key.kind for one in made] == ["RoleBinding", "Etcd"]


def test_a_custom_resource_of_ours_written_by_hand_is_an_app_and_checked_like_one() -> None:
    by_hand = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "Etcd",
        "metadata": {"name": "db"},
        "spec": {"version": "3.5"},
    }
    assert [one.app for one in rendered(lambda: fleet.Manifest(by_hand)).objects] == ["", "", "Etcd"]
    wrong = {**by_hand, "spec": {"version": "3.5", "restoreFrm": {}}}
    with pytest.raises(ConfigurationError, match="Etcd has no field 'restoreFrm'") as caught:
        rendered(lambda: fleet.Manifest(wrong))
    assert (caught.value.field, caught.value.hint) == ("restoreFrm", "did you mean 'restoreFrom'?")
    deep = {**by_hand, "spec": {"version": "3.5", "config": {"maxRequst": "1Mi"}}}
    with pytest.raises(ConfigurationError, match=r"Etcd\.config has no field 'maxRequst'") as caught:
        rendered(lambda: fleet.Manifest(deep))
    assert (caught.value.field, caught.value.hint) == ("config.maxRequst", "did you mean 'maxRequest'?")


def test_an_app_may_live_elsewhere() -> None:
    _, made = rendered(lambda: Etcd("db", version="3.5", namespace="data")).objects
    assert made.key == Key("fleet.dev", "Etcd", "data", "db")


def test_dependencies_come_first_and_else_keys_decide() -> None:
    def body() -> None:
        last = fleet.Manifest(config_map("z"))
        Etcd("a", version="3.5", opts=Options(depends_on=[last]))
        fleet.Manifest(config_map("m"))

    names = [one.key.name for one in rendered(body).objects]
    assert names == ["shop", "m", "z", "fleet-operator-shop", "a"]
    assert by_name(rendered(body))["a"].depends_on == (
        Key("", "ConfigMap", "shop", "z"),
        Key("", "Namespace", "", "shop"),
        Key("rbac.authorization.k8s.io", "RoleBinding", "shop", "fleet-operator-shop"),
    )


def test_dependencies_may_be_named() -> None:
    def body() -> None:
        Etcd("a", version="3.5", opts=Options(depends_on=["b", "ConfigMap/c"]))
        Etcd("b", version="3.5")
        fleet.Manifest(config_map("c"))

    assert [one.key.name for one in rendered(body).objects] == ["shop", "c", "fleet-operator-shop", "b", "a"]


def test_custom_resources_wait_for_their_definition() -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Gizmo"}},
    }

    def body() -> None:
        fleet.Manifest({"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "a"}})
        fleet.Manifest(definition)

    gizmo = by_name(rendered(body))["a"]
    assert [key.kind for key in gizmo.depends_on] == ["Namespace", "CustomResourceDefinition"]


def test_who_needs_a_parent_needs_its_children_and_children_inherit() -> None:
    def body() -> None:
        db = Etcd("db", version="3.5", opts=Options(protect=True, retain_on_delete=True))
        child = fleet.Manifest(config_map("child"), opts=Options(parent=db, depends_on=[db]))
        fleet.Manifest(config_map("grandchild"), opts=Options(parent=child, protect=False))
        fleet.Manifest(config_map("user"), opts=Options(depends_on=[db]))

    made = by_name(rendered(body))
    assert {key.name for key in made["user"].depends_on} == {"db", "child", "grandchild", "shop"}
    assert {key.name for key in made["child"].depends_on} == {"db", "shop"}
    assert (made["child"].protect, made["child"].retain_on_delete) == (True, True)
    assert (made["grandchild"].protect, made["grandchild"].retain_on_delete) == (False, True)


def test_options_are_carried_over_in_kubernetes_terms() -> None:
    def body() -> None:
        options = Options(
            ignore_changes=["restore_from", "config.max_request", "metadata.annotations"],
            aliases=["old", "elsewhere/older", Alias(kind="EtcdCluster", group="etcd.example.com")],
            adopt=True,
        )
        Etcd("db", version="3.5", opts=options)

    made = by_name(rendered(body))["old"]
    assert made.ignore_changes == ("spec.restoreFrom", "spec.config.maxRequest", "metadata.annotations")
    assert made.aliases == (
        Key("fleet.dev", "Etcd", "shop", "db"),
        Key("fleet.dev", "Etcd", "elsewhere", "older"),
        Key("etcd.example.com", "EtcdCluster", "shop", "db"),
    )
    assert made.adopt


def test_a_renamed_app_is_called_by_its_former_name_wherever_the_cluster_is_meant() -> None:
    def body() -> None:
        carts = Etcd("carts", version="3.5", opts=Options(aliases=["orders", "basket"]))
        moved = Etcd("moved", version="3.5", opts=Options(aliases=[Alias(namespace="before")]))
        said = {"data": {"at": carts.endpoint, "url": carts.connection.url, "secret": carts.connection.secret}}
        fleet.Manifest({**config_map("client"), **said}, opts=Options(depends_on=["carts"]))
        fleet.export("moved", [moved.endpoint, moved.connection.namespace])

    desired = rendered(body)
    made = by_name(desired)
    assert made["orders"].key == Key("fleet.dev", "Etcd", "shop", "orders")
    labels = made["orders"].manifest["metadata"]["labels"]
    assert (labels["app.kubernetes.io/instance"], labels["fleet.dev/name"]) == ("orders", "carts")
    assert made["client"].manifest["data"] == {
        "at": "orders.shop.svc:2379",
        "url": "https://orders.shop.svc:2379",
        "secret": "orders-connection",
    }
    assert made["orders"].key in made["client"].depends_on
    assert desired.exports == {"moved": ["moved.before.svc:2379", "before"]}
    assert "fleet-operator-shop" in {one.key.name for one in desired.objects if one.key.namespace == "before"}


def two_of_one_name() -> None:
    Etcd("carts", version="3.5", opts=Options(aliases=["orders"]))
    Etcd("carts", version="3.5")


def a_name_that_is_still_in_use() -> None:
    Etcd("carts", version="3.5", opts=Options(aliases=["orders"]))
    Etcd("orders", version="3.5")


def a_former_name_that_is_none() -> None:
    Etcd("carts", version="3.5", opts=Options(aliases=["Orders_1"]))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (two_of_one_name, "Etcd.fleet.dev shop/carts is declared twice"),
        (a_name_that_is_still_in_use, "Etcd.fleet.dev shop/orders is declared twice"),
        (a_former_name_that_is_none, "'Orders_1' is not a name"),
    ],
)
def test_a_name_of_an_app_is_there_once(body: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rendered(body)
    assert message in caught.value.message


def test_two_apps_of_different_kinds_cannot_have_one_name_in_a_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body() -> None:
        from fleet.apps import Queue  # type: ignore[attr-defined]

        Etcd("db", version="3.5")
        Queue("db", namespace="elsewhere", version="4")
        Queue("db", version="4")

    write_package(tmp_path)
    with installed(monkeypatch, tmp_path), pytest.raises(ConfigurationError) as caught:
        rendered(body)
    assert "Queue.fleet.dev shop/db has the name of Etcd.fleet.dev shop/db" in caught.value.message


def a_cycle() -> None:
    Etcd("a", version="3.5", opts=Options(depends_on=["b"]))
    Etcd("b", version="3.5", opts=Options(depends_on=["a"]))


def an_unknown_name() -> None:
    Etcd("orders", version="3.5")
    Etcd("b", version="3.5", opts=Options(depends_on=["ordres"]))


stranger = Etcd("stranger", version="3.5")


def a_stranger() -> None:
    Etcd("b", version="3.5", opts=Options(depends_on=[stranger]))


def a_strange_parent() -> None:
    Etcd("b", version="3.5", opts=Options(parent=stranger))


def an_unknown_field() -> None:
    Etcd("b", version="3.5", opts=Options(ignore_changes=["storge"]))


def anothers_label() -> None:
    fleet.Manifest(config_map("a", labels={"fleet.dev/stack": "other"}))


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        (
            a_cycle,
            "dependency cycle: Etcd.fleet.dev shop/a → Etcd.fleet.dev shop/b → Etcd.fleet.dev shop/a",
            "take one",
        ),
        (an_unknown_name, "stack 'shop' declares no 'ordres'", "did you mean 'orders'?"),
        (a_stranger, "Etcd.fleet.dev default/stranger is not declared by stack 'shop'", "name resources of the same"),
        (
            a_strange_parent,
            "Etcd.fleet.dev default/stranger is not declared by stack 'shop'",
            "name resources of the same",
        ),
        (an_unknown_field, "Etcd has no field 'storge'", "did you mean 'storage'?"),
        (anothers_label, "the label fleet.dev/stack says which stack owns an object, and this is 'shop'", "leave"),
    ],
)
def test_what_cannot_be_is_named_with_its_line(body: Callable[[], None], message: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rendered(body)
    assert caught.value.message == message
    assert (caught.value.hint or "").startswith(hint)
    assert caught.value.source is not None
    code = body.__code__
    lines = {line for *_, line in code.co_lines() if line}
    assert caught.value.source.line in lines


EXAMPLE = """
import sys
sys.path.insert(0, {root!r})
import orjson
from dataclasses import asdict
from clusters.eu import eu_1
from stacks.coordination import coordination
from fleet.render import render
sys.stdout.buffer.write(orjson.dumps(asdict(render(coordination(eu_1), eu_1)), default=tuple))
"""


def test_the_example_renders_to_the_same_bytes_in_every_process() -> None:
    code = EXAMPLE.format(root=str(ROOT))
    results = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(results) == 1
    data = orjson.loads(results.pop())
    assert [f"{one['manifest']['kind']}/{one['manifest']['metadata']['name']}" for one in data["objects"]] == [
        "Namespace/coordination",
        "ConfigMap/registry-clients",
        "RoleBinding/fleet-operator-coordination",
        "Etcd/registry",
        "NetworkPolicy/registry",
    ]
    assert data["objects"][4]["source"] == {"file": "stacks/network/registry.yaml", "line": 2}


def test_what_is_rendered_is_plain_data_with_sorted_keys() -> None:
    desired = rendered(lambda: Etcd("db", version="3.5", storage="1Gi", members=5))
    plain = orjson.dumps(asdict(desired)["objects"][-1]["manifest"])
    assert plain == orjson.dumps(orjson.loads(plain), option=orjson.OPT_SORT_KEYS)
