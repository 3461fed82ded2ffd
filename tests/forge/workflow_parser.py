"""GitHub's own parser of workflows, as its editor extension uses it; run by node, from the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from fleet.lab import files as paths
from tests.forge.published_apis import Package, archive

PACKAGES = (
    Package(
        "@actions/workflow-parser",
        "0.3.61",
        "NBjJrbwwrEN3LSN0NAISLpCWQLcPSBjmAIkLXHgjGX8Yql4PiD33ifSAvr9sIMU9uIs8wZiGUnvo9yPIMIfKdg==",
    ),
    Package(
        "@actions/expressions",
        "0.3.61",
        "Ig+tXELvTjlqxQAWBQnLNn2dPpNraLMdSnT+vDzDPmJtbNUhIAH/Z9kVT8pZ8UtJi9vUGs8hwHE8JFJmbOnLEA==",
    ),
    Package(
        "cronstrue",
        "2.59.0",
        "YKGmAy84hKH+hHIIER07VCAHf9u0Ldelx1uU6EBxsRPDXIA1m5fsKmJfyC3xBhw6cVC/1i83VdbL4PvepTrt8A==",
    ),
    Package(
        "yaml", "2.8.1", "lcYcMxX2PO9XMGvAJkJ3OsNMw+/7FKes7/hgerGUYWIoWu5j/+YQqcZr5JnPZWzOsEBgMbSbiSTn/dv/69Mkpw=="
    ),
)
SCRIPT_FILE = "parse.mjs"
SCRIPT = """
import { readFileSync } from "node:fs";
import { parseWorkflow, NoOperationTraceWriter, convertWorkflowTemplate } from "@actions/workflow-parser";
const content = readFileSync(process.argv[2], "utf8");
const parsed = parseWorkflow({ name: process.argv[2], content }, new NoOperationTraceWriter());
const problems = parsed.context.errors.getErrors().map((one) => one.message);
const template = await convertWorkflowTemplate(parsed.context, parsed.value);
console.log(JSON.stringify([...problems, ...(template.errors ?? []).map((one) => one.Message)]));
"""


def problems(workflow: Path) -> list[str]:
    """What GitHub would complain of in a workflow."""
    if not shutil.which("node"):
        pytest.skip("GitHub's parser needs node")
    home = _installed()
    done = subprocess.run(["node", SCRIPT_FILE, workflow], cwd=home, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    found: list[str] = orjson.loads(done.stdout)
    return found


def _installed() -> Path:
    key = "-".join(one.version for one in PACKAGES)
    home = paths.cache_directory() / "published" / f"workflow-parser-{key}"
    if home.exists():
        return home
    draft = home.with_name(f"{home.name}.{os.getpid()}")
    for one in PACKAGES:
        target = draft / "node_modules" / one.name
        target.mkdir(parents=True)
        with archive(one) as files:
            for member in files.getmembers():
                member.name = member.name.partition("/")[2]
                if member.isfile() and member.name:
                    files.extract(member, target, filter="data")
    for file in draft.rglob("*.js"):  # written for bundlers, which do not ask what a JSON file is
        text = file.read_text()
        if ".json" in text:
            file.write_text(re.sub(r"""(from ["'][^"']+\.json["'])(?! with);""", r'\1 with { type: "json" };', text))
    (draft / SCRIPT_FILE).write_text(SCRIPT)
    try:
        draft.rename(home)  # whole at once: tests may run side by side
    except OSError:
        shutil.rmtree(draft)
    return home
