"""The operator of the release before and this one, on the same running etcd: neither writes, and nobody restarts.

The release before is the last commit without `fleet.kit`: everything that decides was written anew since.
"""

from __future__ import annotations

import subprocess
import tarfile
import time
from io import BytesIO
from pathlib import Path

import pytest

from fleet.kit.members import LEDGER
from fleet.testing.audit import Request
from tests.operator.app_on_nodes import App

pytestmark = pytest.mark.timeout(1800)
BEFORE = "0a660bf"
ROOT = Path(__file__).parents[3]
QUIET = 12.0  # seconds: a pass of an app that is well, and the one after


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Return the tree of the release before, as git has it."""
    command = ["git", "archive", BEFORE, "fleet", "operator", "crds"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"this clone has no commit {BEFORE}: {made.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(made.stdout)) as archive:
        archive.extractall(tmp_path / "before", filter="data")
    return tmp_path / "before"


def test_the_release_before_and_this_one_leave_each_others_etcd_alone(unattended: App, before: Path) -> None:
    app = unattended
    app.cluster.images("etcd")
    app.operator.start(before)
    app.want(version="3.5", members=3)
    app.wait_ready()
    restarts, claims, ledger = app.restarts(), app.claims(), _ledger(app)
    with app.writer(rate=50) as writer:
        for tree in (None, before, None):
            app.operator.kill()
            written = _written_by_another(app, tree)
            assert written == [], f"the operator of {tree or 'this release'} wrote {written}"
            assert (app.restarts(), app.claims()) == (restarts, claims)
            assert _ledger(app) == ledger
        writer.goes_on()
        app.change(members=1)  # the ledger of before is read, and gone on with
        app.wait_ready()
        numbers = writer.stop()
    app.has_all(numbers)
    assert {pod: restarts[pod] for pod in app.restarts()} == app.restarts(), "who stays is not restarted"


def _ledger(app: App) -> str:
    found = app.api.get(f"/api/v1/namespaces/{app.namespace}/configmaps/{app.name}-members")
    return str(found["metadata"]["annotations"][LEDGER])


def _written_by_another(app: App, tree: Path | None) -> list[Request]:
    mark = app.cluster.audit.mark()
    app.operator.start(tree)
    app.wait("it looks after its apps", lambda: app.operator.is_looking(mark))
    time.sleep(QUIET)
    writes = app.cluster.audit.writes(mark, agent="fleet-operator")
    return [one for one in writes if app.namespace in one.uri and "/status" not in one.uri and "/leases" not in one.uri]
