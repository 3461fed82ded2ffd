"""`fleet preview --base --head`: two revisions from git alone, with no cluster and no kubeconfig anywhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import PolicyError
from fleet.evaluate import Pool
from fleet.evaluate.sandbox.level import Level, Sandbox
from fleet.plan.views.html import html_page
from fleet.plan.views.json import plan_data
from fleet.plan.views.markdown import markdown_comment, markdown_comments
from fleet.plan.views.text import text_tree
from fleet.preview.merge import preview_merge
from tests.preview.plain import PlainRepository, manifest

A, B = manifest("ConfigMap", "a", data={"x": "1"}), manifest("ConfigMap", "b", data={"x": "1"})
A2 = manifest("ConfigMap", "a", data={"x": "2"})
CLIENT = """fleet.Manifest(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "at"}, "data": {"at": app.endpoint}}
    )"""


def steps(document: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    return {(one["stack"], one["cluster"], one["verb"], one["object"]["name"]) for one in document["steps"]}


def test_a_merge_is_shown_without_any_cluster(plain: PlainRepository) -> None:
    plain.wants(A, B)
    plain.commit()
    plain.change()
    plain.wants(A2, manifest("ConfigMap", "c"))
    plain.commit("Another price")
    shown = plain.preview()
    assert shown.code == 0, shown.err
    assert '│  ├─ ~ update     ConfigMap shop/a  stacks/shop.py:9\n│  │               data.x: "1" → "2"' in shown.out
    assert "no cluster asked" in shown.out
    assert "2 to create, 2 to update, 2 to delete, 2 unchanged" in shown.out
    document = plain.preview("-o", "json").json()
    assert document["depth"] == "desired"
    assert document["head"]["subject"] == "Another price"
    assert ("shop", "eu-1", "delete", "b") in steps(document)


def test_a_renamed_app_is_an_update_between_two_commits_and_on_the_way_back(plain: PlainRepository) -> None:
    def wants(name: str, *aliases: str) -> str:
        options = f"opts=Options(protect=True, aliases={list(aliases)})"
        plain.wants(f"app = Etcd({name!r}, version='3.5', storage='1Gi', {options})", CLIENT)
        return plain.commit(name)

    first, renamed, taken_back = wants("orders"), wants("carts", "orders"), wants("orders")
    for base, head in ((first, renamed), (renamed, taken_back)):
        document = plain.preview("-o", "json", base=base, head=head).json()
        assert steps(document) == {("shop", "eu-1", "update", "orders"), ("shop", "us-1", "update", "orders")}


def test_head_is_what_is_checked_out_unless_given_and_files_that_are_not_committed_do_not_count(
    plain: PlainRepository,
) -> None:
    plain.wants(A)
    plain.commit()
    plain.change()
    plain.wants(A2)
    plain.commit()
    plain.wants(A2, B)
    before = plain.git("status", "--porcelain")
    shown = plain.fleet("preview", "--base", "main", "-o", "json").json()
    assert steps(shown) == {("shop", "eu-1", "update", "a"), ("shop", "us-1", "update", "a")}
    assert plain.git("status", "--porcelain") == before
    assert plain.git("branch", "--show-current").strip() == "change"


def test_what_others_merged_meanwhile_is_no_part_of_the_change_and_does_not_alter_its_hash(
    plain: PlainRepository,
) -> None:
    plain.wants(A)
    plain.wants(B, stack="other")
    plain.commit()
    plain.change()
    plain.wants(A2)
    plain.commit()
    alone = plain.preview("-o", "json").json()
    plain.main()
    plain.wants(manifest("ConfigMap", "b", data={"x": "9"}), stack="other")
    plain.commit("a neighbour")
    beside = plain.preview("-o", "json").json()
    assert steps(beside) == {("shop", "eu-1", "update", "a"), ("shop", "us-1", "update", "a")}
    assert beside["planHash"] == alone["planHash"]
    assert beside["tree"] != alone["tree"]
    plain.git("merge", "--squash", "--quiet", "change")
    squashed = plain.commit("squashed")
    applied = plain.preview("-o", "json", base=f"{squashed}^", head=squashed).json()
    assert (applied["planHash"], applied["tree"]) == (beside["planHash"], beside["tree"])


def test_the_hash_is_another_when_the_change_is(plain: PlainRepository) -> None:
    plain.wants(A)
    plain.commit()
    plain.change()
    hashes = set()
    for value in "123":
        plain.wants(manifest("ConfigMap", "a", data={"x": value}))
        plain.commit()
        hashes.add(plain.preview("-o", "json").json()["planHash"])
    assert len(hashes) == 3


def test_a_merge_conflict_is_an_error_that_names_the_files(plain: PlainRepository) -> None:
    plain.wants(A)
    plain.commit()
    plain.change()
    plain.wants(A2)
    plain.commit()
    plain.main()
    plain.wants(manifest("ConfigMap", "a", data={"x": "3"}))
    plain.commit()
    shown = plain.preview()
    assert shown.code == 4
    assert "both change 'stacks/shop.py'" in shown.err
    assert "merge or rebase the branch" in shown.err


def test_histories_without_a_common_ancestor_are_refused(plain: PlainRepository) -> None:
    plain.wants(A)
    plain.commit()
    plain.git("checkout", "--quiet", "--orphan", "change")
    plain.commit("apart")
    shown = plain.preview()
    assert shown.code == 2
    assert "no common ancestor" in shown.err


def test_settings_are_those_of_the_base(plain: PlainRepository) -> None:
    many = [manifest("ConfigMap", f"c{number}") for number in range(3)]
    plain.write("fleet.toml", '[fleet]\nname = "plain"\n[budget]\ndeletions = 2\nshare = "100%"\n')
    plain.wants(A, *many)
    plain.commit()
    plain.change()
    plain.write("fleet.toml", '[fleet]\nname = "plain"\n[budget]\ndeletions = 1000\n[paths]\nstacks = "elsewhere"\n')
    plain.wants(A)
    plain.commit()
    shown = plain.preview()
    assert shown.code == 5
    assert "the budget is 2" in shown.err
    assert "fleet.toml changes too" in shown.err


def test_the_head_is_the_code_of_others_whatever_any_settings_say(plain: PlainRepository) -> None:
    own = '[fleet]\nname = "plain"\n[trust]\ncode = "own"\n'
    plain.write("fleet.toml", own)
    plain.wants(A)
    plain.commit()
    plain.change()
    plain.write("fleet.toml", own + "# and so does the head\n")
    plain.wants(A2)
    plain.commit()
    with (
        Pool(sandbox=Sandbox(Level.NONE)) as pool,
        pytest.raises(PolicyError, match="code of others is evaluated in a sandbox only") as refused,
    ):
        preview_merge("main", "change", pool=pool)
    assert refused.value.exit_code == 5
    assert "the head of a pull request is always of others" in str(refused.value.hint).lower()
    with Pool(sandbox=Sandbox(Level.B)) as pool:
        if not pool.sandbox_report().level.confines:
            pytest.skip("this machine gives no sandbox")
        run, _ = preview_merge("main", "change", pool=pool)
    assert [one.problem for one in run.results] == [None, None]
    assert run.remarks == ()  # what the preview does not take from the settings is no change of them


def test_packages_are_those_that_the_base_locks(
    plain: PlainRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    plain.wants(A)
    plain.commit()
    plain.change()
    plain.write("stacks/requirements.lock", f"small==1.0 --hash=sha256:{'0' * 64}\n")
    plain.wants(A2)
    plain.commit()
    shown = plain.preview()
    assert shown.code == 0, shown.err  # nothing was fetched: what the head locks is not looked at
    assert "stacks/requirements.lock changes too; this preview is made with the packages of the base" in shown.err
    plain.wants("import small")
    plain.commit()
    refused = plain.preview()
    assert refused.code == 2
    assert "there is no module 'small'" in refused.err
    assert "name its package in stacks/requirements.lock of the base, which comes first" in refused.err
    plain.main()
    plain.write("stacks/requirements.lock", f"small==1.0 --hash=sha256:{'0' * 64}\n")
    plain.commit()
    assert "the packages of stacks/requirements.lock could not be fetched" in plain.preview().err


def test_what_the_repository_forbids_is_refused(plain: PlainRepository) -> None:
    protected = f"fleet.Manifest({A!r}, opts=Options(protect=True))"
    plain.wants(protected)
    plain.commit()
    plain.change()
    plain.wants()
    plain.commit()
    shown = plain.preview()
    assert shown.code == 5
    assert "is protected" in shown.err
    plain.wants(A)
    plain.commit()
    shown = plain.preview()
    assert shown.code == 0
    assert "opts.protect: true → false" in shown.out


def test_a_stack_or_a_cluster_that_leaves_is_said_and_nothing_is_deleted(plain: PlainRepository) -> None:
    plain.wants(A)
    plain.wants(B, stack="other")
    plain.commit()
    plain.change()
    (plain.root / "stacks/other.py").unlink()
    plain.write("clusters/all.py", "import fleet\n\nfleet.Cluster('eu-1', labels={'env': 'prod'})\n")
    plain.commit()
    shown = plain.preview("-o", "json")
    assert shown.json()["steps"] == []
    assert "stack other leaves git" in shown.err
    assert "cluster us-1 leaves the fleet" in shown.err
    assert shown.json()["remarks"] == shown.err.splitlines()


def test_a_cluster_that_no_longer_fits_is_forgotten_and_counts(plain: PlainRepository) -> None:
    plain.wants(A)
    plain.commit()
    plain.change()
    plain.wants(A, clusters="['eu-1']")
    plain.commit()
    assert steps(plain.preview("-o", "json").json()) == {
        ("shop", "us-1", "forget", "a"),
        ("shop", "us-1", "forget", "shop"),
    }


def test_stacks_and_clusters_can_be_chosen(plain: PlainRepository) -> None:
    plain.wants(A)
    plain.wants(B, stack="other")
    plain.commit()
    plain.change()
    plain.wants(A2)
    plain.wants(manifest("ConfigMap", "b", data={"x": "2"}), stack="other")
    plain.commit()
    only = plain.preview("--stack", "other", "--cluster", "us-1", "-o", "json").json()
    assert steps(only) == {("other", "us-1", "update", "b")}
    assert plain.preview("--stack", "otter").code == 6
    assert plain.preview("--cluster", "mars").code == 6


def test_no_change_is_no_change(plain: PlainRepository) -> None:
    plain.wants(A, 'Etcd("store", version="3.5", members=3, storage="1Gi")')
    plain.commit()
    plain.change()
    plain.commit("only words")
    shown = plain.preview("--expect-no-changes")
    assert shown.code == 0, shown.err
    plain.wants(A2, 'Etcd("store", version="3.5", members=3, storage="1Gi")')
    plain.commit()
    assert plain.preview("--expect-no-changes").code == 7


def test_a_first_stack_is_previewed_where_the_base_has_no_directory_for_stacks_yet(plain: PlainRepository) -> None:
    plain.wants(A)
    shutil.rmtree(plain.root / "stacks")
    plain.commit("only clusters")
    plain.change()
    plain.wants(A)
    plain.commit("A first stack")
    shown = plain.preview("-o", "json")
    assert shown.code == 0, shown.err
    assert steps(shown.json()) >= {("shop", "eu-1", "create", "a"), ("shop", "us-1", "create", "a")}


def test_a_broken_head_is_its_authors_error_and_a_broken_base_is_named(plain: PlainRepository) -> None:
    plain.wants(A)
    good = plain.commit()
    plain.change()
    plain.wants("raise ValueError('no')")
    broken = plain.commit()
    shown = plain.preview(base=good, head=broken)
    assert shown.code == 2
    assert "stacks/shop.py" in shown.err
    plain.wants(A2)
    shown = plain.preview(base=broken, head=plain.commit())
    assert shown.code == 2
    assert "the base itself cannot be evaluated" in shown.err


@pytest.mark.parametrize(
    "flags",
    [
        ("--head", "main"),
        ("--base", "main", "--revision", "main"),
        ("--base", "main", "--take-over", "x"),
        ("--base", "main", "--kubeconfig", "fleet.toml"),
    ],
)
def test_flags_that_say_nothing_together_are_refused(plain: PlainRepository, flags: tuple[str, ...]) -> None:
    plain.wants(A)
    plain.commit()
    assert plain.fleet("preview", *flags).code == 2


def web(**spec: Any) -> dict[str, Any]:
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": spec.pop("image")}]}}
    return {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": pod, **spec}


def without_replicas(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name != "replicas"}


DELETED = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}
ETCD = "Etcd('store', version={!r}, members={}, storage='1Gi', volume=Volume(on_delete={!r}, on_scale_in={!r}))"
RESTARTED = "Etcd('store', version='3.5', members={}, storage='1Gi', resources=fleet.Resources(cpu={!r}))"
ON_DELETE = {"fleet.dev/on-delete": "delete"}
CLAIM = manifest("PersistentVolumeClaim", "data", spec={"accessModes": ["ReadWriteOnce"]})


@pytest.mark.parametrize(
    ("before", "after", "does", "words", "destructive"),
    [
        (None, A, "create", "create", False),
        (A, A2, "update in place", "update in place", False),
        (A, None, "delete", "delete", True),
        (
            manifest("Deployment", "w", spec=web(image="w:1")),
            manifest("Deployment", "w", spec=web(image="w:2")),
            "restart",
            "rolling restart of 3 pods",
            False,
        ),
        (
            manifest("Deployment", "w", spec=web(image="w:1", strategy={"type": "Recreate"})),
            manifest("Deployment", "w", spec=web(image="w:2", strategy={"type": "Recreate"})),
            "restart",
            "restart of 3 pods at once",
            False,
        ),
        (
            manifest("StatefulSet", "w", spec=web(image="w:1", **DELETED)),
            manifest("StatefulSet", "w", spec=web(image="w:1", **DELETED, replicas=1)),
            "scale",
            "scale 3 → 1: the data of those that leave is deleted",
            True,
        ),
        (
            manifest("StatefulSet", "w", spec=web(image="w:1", **DELETED)),
            None,
            "delete data",
            "data deleted: its volume claims go with it",
            True,
        ),
        (
            {**CLAIM, "metadata": {"name": "data", "annotations": ON_DELETE}},
            None,
            "delete data",
            "data deleted",
            True,
        ),
        (CLAIM, None, "forget", "forget; it is left running", False),
        (
            ETCD.format("3.4", 3, "keep", "keep"),
            ETCD.format("3.6", 3, "keep", "keep"),
            "upgrade",
            "upgrade 3.4 → 3.6 in 2 hops; point of no return: 3.5.26, from there back only by a restore",
            True,
        ),
        (
            ETCD.format("3.5", 3, "keep", "keep"),
            ETCD.format("3.5.30", 3, "keep", "keep"),
            "upgrade",
            "upgrade 3.5 → 3.5.30",
            False,
        ),
        (
            ETCD.format("3.5", 5, "keep", "delete"),
            ETCD.format("3.5", 3, "keep", "delete"),
            "scale",
            "scale 5 → 3: the data of 2 members is deleted when they have left",
            True,
        ),
        (
            ETCD.format("3.5", 3, "delete", "keep"),
            None,
            "delete data",
            "data deleted: the app with its volumes",
            True,
        ),
        (
            ETCD.format("3.5", 5, "keep", "delete"),
            ETCD.format("3.6", 3, "keep", "delete"),
            "scale",
            "upgrade 3.5 → 3.6; scale 5 → 3: the data of 2 members is deleted when they have left",
            True,
        ),
        (
            ETCD.format("3.4", 5, "keep", "delete"),
            ETCD.format("3.5", 3, "keep", "delete"),
            "upgrade",
            "upgrade 3.4 → 3.5; point of no return: 3.5, from there back only by a restore"
            "; scale 5 → 3: the data of 2 members is deleted when they have left",
            True,
        ),
        (
            ETCD.format("3.5", 5, "keep", "keep"),
            ETCD.format("3.6", 3, "keep", "keep"),
            "upgrade",
            "upgrade 3.5 → 3.6; scale 5 → 3",
            False,
        ),
        (
            RESTARTED.format(5, "100m"),
            RESTARTED.format(3, "200m"),
            "scale",
            "scale 5 → 3: the data of 2 members is deleted when they have left; rolling restart of 3 pods",
            True,
        ),
        (
            manifest("StatefulSet", "w", spec=web(image="w:1", **DELETED)),
            manifest("StatefulSet", "w", spec=web(image="w:2", **DELETED, replicas=1)),
            "scale",
            "scale 3 → 1: the data of those that leave is deleted; rolling restart of 1 pod",
            True,
        ),
        (
            manifest("StatefulSet", "w", spec=web(image="w:1", **DELETED)),
            manifest("StatefulSet", "w", spec=without_replicas(web(image="w:2", **DELETED))),
            "scale",
            "scale 3 → 1, unless somebody else sets it: the data of those that leave is deleted"
            "; rolling restart of 1 pod",
            True,
        ),
        (
            manifest("StatefulSet", "w", spec=web(image="w:1")),
            manifest("StatefulSet", "w", spec=web(image="w:2", updateStrategy={"type": "OnDelete"}, replicas=2)),
            "scale",
            "scale 3 → 2; update in place; 2 pods change when they are deleted",
            False,
        ),
    ],
)
def test_a_change_is_named_for_what_it_does_to_users(
    plain: PlainRepository,
    before: dict[str, Any] | str | None,
    after: dict[str, Any] | str | None,
    does: str,
    words: str,
    destructive: bool,
) -> None:
    volume = "from fleet import Volume"
    plain.wants(volume, manifest("ConfigMap", "stays"), *([before] if before else []), clusters="['eu-1']")
    plain.commit()
    plain.change()
    plain.wants(volume, manifest("ConfigMap", "stays"), *([after] if after else []), clusters="['eu-1']")
    plain.commit()
    found = plain.preview("-o", "json").json()["steps"]
    step = next(one for one in found if one["object"]["kind"] != "RoleBinding")
    assert (step["does"], step["effect"], step["destructive"]) == (does, words, destructive)


def test_a_fleet_may_lie_below_the_top_of_its_repository(
    plain: PlainRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.wants(A)
    for part in ("clusters", "stacks"):
        shutil.copytree(plain.root / part, plain.root / "deep" / part)
    shutil.copy(plain.root / "fleet.toml", plain.root / "deep")
    plain.commit()
    plain.change()
    plain.wants(B)
    file = plain.root / "deep/stacks/shop.py"
    file.write_text(file.read_text().replace("'x': '1'", "'x': '2'"))
    plain.commit()
    monkeypatch.chdir(plain.root / "deep")
    assert steps(plain.preview("-o", "json").json()) == {
        ("shop", "eu-1", "update", "a"),
        ("shop", "us-1", "update", "a"),
    }


def test_a_head_that_leads_out_of_its_tree_is_refused(plain: PlainRepository) -> None:
    plain.wants(A)
    plain.commit()
    plain.change()
    (plain.root / "stacks/theirs.py").symlink_to("/etc/passwd")
    plain.commit()
    shown = plain.preview()
    assert shown.code == 5
    assert "symlink" in shown.err


def test_no_view_of_a_merge_has_a_secret_value(plain: PlainRepository) -> None:
    plain.wants(manifest("Secret", "a", stringData={"password": "canary-1"}, data={"more": "Y2FuYXJ5LTE="}))
    plain.commit()
    plain.change()
    plain.wants(manifest("Secret", "a", stringData={"password": "canary-2"}, data={"more": "Y2FuYXJ5LTI="}))
    plain.commit()
    run, about = preview_merge("main", "change")
    branches = [one.branch for one in run.results]
    views = [
        text_tree(branches, about=about),
        markdown_comment(branches, about=about),
        html_page(branches, about=about),
    ]
    views += [repr(plan_data(branches, about=about)), *markdown_comments(branches, about=about)]
    for text in views:
        assert "(redacted)" in text
        assert "canary" not in text
        assert "Y2FuYXJ5" not in text
