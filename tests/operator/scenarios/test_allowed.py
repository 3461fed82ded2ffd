"""What apps may bring along: an Etcd is no way to any image, any claim, any server or another namespace's data."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet import Backup, Claim, Restore
from fleet.apps import Etcd
from fleet.apps.etcd.backup.plan import PLAN
from fleet.apps.etcd.engine.engine import EtcdEngine
from fleet.errors import ConfigurationError, PolicyError
from fleet.install.manifests import InstallOptions, deployment, settings_of
from fleet.kit.backup import content
from fleet.kit.backup.directory import Directory
from fleet.kit.backup.records import Record
from fleet.kit.backup.restoration import pick_job
from fleet.kit.backup.shelf import pick
from fleet.kit.order import decide
from fleet.kit.permissions import Permissions
from fleet.kit.step import Decision
from fleet.model.app_settings import NFS, Store
from tests.operator.etcd.observations import IMAGES, Drawing, app

MINE = "registry.example.com/mine/etcd:v3.5.16"
NO_DATA = '{"level":"fatal","msg":"discovery failed","error":"couldn\'t find local name \\"db-2\\" in the cluster"}'


def decided(drawing: Drawing, allowed: Permissions) -> Decision:
    engine = EtcdEngine(IMAGES, allowed)
    seen = engine.judged(drawing.seen())
    return decide(engine.concerns(seen), engine.at_rest(seen))


def begun(wanted: Etcd) -> Drawing:
    """Nothing of it is there."""
    drawing = Drawing(app=wanted, ran=app())
    drawing.ledger, drawing.set, drawing.members = None, None, None
    drawing.pods, drawing.claims, drawing.statuses = {}, {}, {}
    return drawing


@pytest.mark.parametrize(
    ("image", "allowed", "reason"),
    [
        (None, (), "Creating"),
        ("example.test/etcd:3.4", (), "Creating"),  # as the engine's own are named here
        (MINE, (), "NotAllowed"),
        (MINE, ("registry.example.com/other/*",), "NotAllowed"),
        ("registry.example.com.evil.test/mine/etcd:1", ("registry.example.com/mine/*",), "NotAllowed"),
        (MINE, ("registry.example.com/mine/*",), "Creating"),
    ],
)
def test_a_new_app_runs_the_engines_own_images_and_those_that_are_allowed(
    image: str | None, allowed: tuple[str, ...], reason: str
) -> None:
    decision = decided(begun(app(image=image)), Permissions(images=allowed))
    assert decision.reason == reason
    if reason == "NotAllowed":
        assert decision.steps == () and f"--allow-image '{image}'" in decision.message


def test_members_keep_an_image_that_they_have_and_are_looked_after() -> None:
    assert decided(Drawing(app=app(image=MINE)), Permissions()).reason == "Healthy"
    drawing = Drawing(app=app(image=MINE, members=5), ran=app())
    assert decided(drawing, Permissions()).reason == "ScalingOut", "with the image that the others have"
    drawing = Drawing(app=app(image=MINE), ran=app())
    assert (decided(drawing, Permissions()).reason, decided(drawing, Permissions()).steps) == ("NotAllowed", ())
    assert decided(drawing, Permissions(images=("registry.example.com/*",))).reason == "Rolling"
    drawing.crash("db-2", NO_DATA)
    assert decided(drawing, Permissions()).steps, "a member that is lost is replaced"


@pytest.mark.parametrize(
    ("store", "allowed", "taken"),
    [
        (Claim("backups"), (), True),
        (Claim("backups", folder="shop"), (), True),
        (Claim("data-orders-0"), (), False),  # the volume of a member
        (Claim("data-orders-0", folder="data/member/snap"), (), False),
        (Claim("pgdata-postgres-0"), (), False),  # the volume of any StatefulSet: TEMPLATE-SET-N
        (Claim("etcd-data-etcd-0"), (), False),
        (Claim("www-web-12", folder="backups"), (), False),
        (Claim("orders-backups"), (), True),
        (Claim("backups-2"), (), True),  # no set's: that would have two names before the number
        (Claim("pgdata-postgres-0"), ("claim/pgdata-postgres-0",), True),
        (NFS("nas", "/exports"), (), False),
        (NFS("nas", "/exports/shop"), ("nfs://nas/exports/*",), True),
        (NFS("nas.evil.test", "/exports/shop"), ("nfs://nas/exports/*",), False),
        (NFS("nas", "/other"), ("nfs://nas/exports/*",), False),
        (Claim("backups"), ("nfs://nas/exports/*",), False),
        (Claim("backups"), ("claim/back*",), True),
        (Claim("backups", folder="shop"), ("claim/backups",), True),
        (Claim("others"), ("claim/back*",), False),
        (Claim("data-orders-0"), ("claim/data-orders-0",), True),
    ],
)
def test_backups_lie_on_claims_that_are_no_members_and_where_it_is_allowed(
    store: Store, allowed: tuple[str, ...], taken: bool
) -> None:
    policy = Permissions(stores=allowed)
    backup = app(backup=Backup(schedule="0 3 * * *", to=store))
    engine, drawing = EtcdEngine(IMAGES, policy), Drawing(app=backup)
    assert bool(engine.attachments(engine.judged(drawing.seen()))) is taken
    condition = next(
        one for one in engine.report(engine.judged(drawing.seen()), None).conditions if one[0] == "BackedUp"
    )
    assert (condition[2] == "CannotBackUp") is not taken
    restored = begun(app(restore_from=Restore(store)))
    assert decided(restored, policy).reason == "Creating", "the ledger"
    drawing = Drawing(app=app(restore_from=Restore(store)))
    drawing.set, drawing.members, drawing.pods, drawing.claims, drawing.statuses = None, None, {}, {}, {}
    assert drawing.ledger is not None
    object.__setattr__(drawing.ledger, "identity", "")
    assert (decided(drawing, policy).reason == "Restoring") is taken
    assert (decided(drawing, policy).reason == "CannotRestore") is not taken


def kept(directory: Path, name: str, namespace: str) -> None:
    """A record with its snapshot, which is none of etcd's: it is refused for that, if it is not refused before."""
    (directory / f"{name}.db").write_bytes(b"x")
    time = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
    record = Record(
        f"{name}.db", "db", namespace, "c1", time, "3.5.16", "3.5", "1", 1, "sha256:x", "claim/backups", "Etcd"
    )
    content.write(directory / f"{name}.json", record.write())


def test_an_app_starts_from_backups_of_its_own_namespace_unless_others_are_allowed(tmp_path: Path) -> None:
    kept(tmp_path, "own", "shop")
    kept(tmp_path, "theirs", "bank")
    (tmp_path / "unknown.db").write_bytes(b"x")

    def refused(snapshot: str, origins: tuple[str, ...], *, recorded: bool = False) -> str:
        with pytest.raises(Exception) as problem:
            pick(
                Directory(PLAN, tmp_path),
                snapshot,
                app="db",
                namespace="shop",
                version="3.5",
                origins=origins,
                recorded=recorded,
            )
        return type(problem.value).__name__ + str(problem.value)

    whole = PolicyError.__name__
    assert not refused("own.db", ()).startswith(whole), "it is read, and found to be no snapshot"
    assert "is a backup of namespace bank" in refused("theirs.db", ())
    assert refused("theirs.db", ("ban",)).startswith(whole)
    assert not refused("theirs.db", ("ban*",)).startswith(whole)
    assert not refused("unknown.db", ()).startswith(whole), "on a claim of the namespace"
    assert "does not say whose backup it is" in refused("unknown.db", (), recorded=True)
    assert not refused("unknown.db", ("*",), recorded=True).startswith(whole)
    (tmp_path / "own.json").unlink()
    assert "there is no complete backup" in refused("latest", ()), "theirs is not the latest of this app"


def test_the_job_that_chooses_is_told_what_is_allowed() -> None:
    for store, recorded in ((Claim("b"), False), (NFS("nas", "/x"), True)):
        wanted = app(restore_from=Restore(store))
        assert wanted.restore_from is not None
        job = pick_job(PLAN, wanted, wanted.restore_from, operator_image="o", version="3.5", origins=("bank",))
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert "--origin=bank" in container["command"]
        assert ("--recorded" in container["command"]) is recorded


def test_what_is_allowed_is_kept_by_the_deployment_until_something_else_is_said() -> None:
    first = Permissions.said(
        ["registry.example.com/*"], ["claim/backups*", "nfs://nas/exports/*"], ["shop"], Permissions()
    )
    installed = settings_of(deployment(InstallOptions("image", allowed=first)))
    assert installed.allowed == first
    again = Permissions.said([], ["claim/*"], [""], installed.allowed)
    assert again == Permissions(("registry.example.com/*",), ("claim/*",), ())
    with pytest.raises(ConfigurationError, match="'backups' is no pattern of places"):
        Permissions.said([], ["backups"], [], Permissions())
