"""A forge is one file and one line: all that asks which forges there are knows it by these."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from fleet.forge import FORGES
from fleet.forge.forge import ForgeKind, load_kind, load_kinds
from fleet.repository.scaffold import TEMPLATE
from tests.copies import copy_fleet, insert_before, run_code

ACORN = """
from fleet.forge.forge import CiJob, ForgeKind, PushEvent, ForgeRepository, read_variable
from fleet.forge.gitea import Gitea
from fleet.forge.webhook import is_digest, is_equal, sign_body


def read_job(environment):
    url, path = (read_variable(environment, f"ACORN_{part}") for part in ("URL", "PATH"))
    repository = ForgeRepository("acorn", url, path)
    return CiJob(repository, int(environment["ACORN_CHANGE"]))


def parse_event(name, document):
    repository = ForgeRepository("acorn", document.text("url"), document.text("path"))
    return PushEvent(repository, document.text("ref"), "0" * 40, document.commit("now")) if name == "moved" else None


ACORN = ForgeKind(
    name="acorn",
    connect=Gitea,
    hosts={"acorn.example": "acorn.example", "ssh.acorn.example": "acorn.example"},
    head_ref="refs/changes/{number}",
    token_variable="ACORN_TOKEN",
    token_rights="one that may plant",
    job_variables=("ACORN_CI",),
    read_job=read_job,
    event_header="x-acorn-event",
    may_be_signed=lambda headers, secret: is_digest(headers.get("x-acorn-signature", "")),
    is_signed=lambda headers, body, secret: is_equal(sign_body(body, secret), headers.get("x-acorn-signature", "")),
    parse_event=parse_event,
)
"""
CODE = """
import asyncio, hashlib, hmac, sys
import orjson
from fleet.errors import FleetError
from fleet.repository.schema import settings_schema
from fleet.repository.settings import read_settings

assert not [name for name in sys.modules if name.startswith("fleet.forge.")], "settings load no forge"
said = {}


def hint(function, *arguments):
    try:
        function(*arguments)
    except FleetError as error:
        return error.hint


said["setting"] = read_settings("[forge]\\nkind = 'acorn'").forge.kind
said["wrong setting"] = hint(read_settings, "[forge]\\nkind = 'oak'")
said["schema"] = settings_schema()["properties"]["forge"]["properties"]["kind"]["enum"]

from fleet.forge.detect import detect_job, detect_repository, read_token
from fleet.forge.forge import PullRequest, ForgeRepository, connect
from fleet.forge.webhook import check_headers, read_event
from fleet.repository.settings import ForgeSettings
from fleet.serve.options import SHARED

repository = detect_repository("git@ssh.acorn.example:team/fleet.git", ForgeSettings())
said["address"] = [repository.kind, str(repository)]
said["unknown"] = hint(detect_repository, "https://git.example.com/a/fleet", ForgeSettings())
job = detect_job({"ACORN_CI": "true", "ACORN_URL": "https://a.example", "ACORN_PATH": "a/b", "ACORN_CHANGE": "7"})
said["job"] = [job.repository.kind, str(job.repository), job.number]
said["token"] = read_token(repository, {"ACORN_TOKEN": "planted", "GITHUB_TOKEN": "not this"})
said["no token"] = hint(read_token, repository, {"GITHUB_TOKEN": "not this"})
said["other"] = hint(read_token, ForgeRepository("github", "https://github.com", "a/b"), {"ACORN_TOKEN": "not this"})
said["client"] = type(connect(repository, "planted")).__name__
said["head"] = PullRequest(7, "", "", "", "", "", "", "", fork=True).fetch_ref("acorn")
said["withheld"] = sorted(SHARED.withheld(pushes=False))

body = orjson.dumps({"url": "https://a.example", "path": "a/b", "ref": "refs/heads/main", "now": "1" * 40})
headers = {"X-Acorn-Event": "moved", "X-Acorn-Signature": hmac.new(b"secret", body, hashlib.sha256).hexdigest()}
check_headers("acorn", headers, "secret")
event = read_event("acorn", headers, body, "secret")
said["event"] = [event.repository.kind, event.ref]
said["forged"] = hint(read_event, "acorn", headers, body + b" ", "secret")

from types import SimpleNamespace

from fleet.kube.runtime.metrics import Counter
from fleet.serve.process import Webhooks

hooks = Webhooks("secret", print, Counter("hooks", "", ("result",), registry=None))
said["hooks"] = asyncio.run(hooks.answer(SimpleNamespace(method="POST", path="/hooks/oak"))).text
print(orjson.dumps(said).decode())
"""


def test_a_forge_is_one_file_and_one_line(tmp_path: Path) -> None:
    forge = copy_fleet(tmp_path) / "forge"
    (forge / "acorn.py").write_text(ACORN, encoding="utf-8")
    insert_before(forge / "__init__.py", '    "gitea": ', '    "acorn": "fleet.forge.acorn:ACORN",\n')

    said = orjson.loads(run_code(tmp_path, CODE))

    kinds = list(FORGES)
    kinds.insert(kinds.index("gitea"), "acorn")
    choices = " or ".join(", ".join(f'"{kind}"' for kind in kinds).rsplit(", ", 1))
    assert said["setting"] == "acorn"
    assert said["wrong setting"] == f"kind is {choices}"
    assert said["schema"] == kinds
    assert said["address"] == ["acorn", "https://acorn.example/team/fleet"]
    assert choices in said["unknown"]
    assert said["job"] == ["acorn", "https://a.example/a/b", 7]
    assert said["token"] == "planted"
    assert said["no token"] == "set FLEET_FORGE_TOKEN or ACORN_TOKEN: one that may plant"
    assert "ACORN" not in said["other"]
    assert said["client"] == "Gitea"
    assert said["head"] == "refs/changes/7"
    tokens = {kind.token_variable for kind in load_kinds()}
    assert said["withheld"] == sorted({"ACORN_TOKEN", "FLEET_FORGE_TOKEN", *tokens})
    assert said["event"] == ["acorn", "refs/heads/main"]
    assert "secret at the forge" in said["forged"]
    assert "/hooks/acorn, /hooks/gitea, /hooks/github and /hooks/gitlab" in said["hooks"]


@pytest.mark.parametrize("name", FORGES)
def test_a_forge_has_the_name_of_its_line_and_jobs_for_new_repositories(name: str) -> None:
    assert load_kind(name).name == name
    assert any((TEMPLATE / f"dot-{name}").rglob("*.yml")), "fleet init writes jobs for its CI"


def test_forges_differ_in_all_that_tells_them_apart() -> None:
    def values(kind: ForgeKind) -> list[str]:
        return [*kind.hosts, kind.token_variable, kind.event_header, *kind.job_variables]

    everything = [value for kind in load_kinds() for value in values(kind)]
    assert len(everything) == len(set(everything))


@pytest.mark.parametrize("name", FORGES)
def test_a_forge_can_be_loaded_first(tmp_path: Path, name: str) -> None:
    """Forges share parts of each other: none needs that another one was loaded before it."""
    module, _, attribute = FORGES[name].partition(":")
    assert run_code(tmp_path, f"from {module} import {attribute} as kind; print(kind.name)") == f"{name}\n"
