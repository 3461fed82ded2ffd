"""The alerts of the docs ask for series and labels that the programs have."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from docs.tools.reference.metrics import describe, of_operator, of_service
from fleet.lab.images.bake import bake
from fleet.lab.images.recipes import find_recipes
from tests.docs.document import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "alerts.md"
_WORDS = {"rate", "increase", "sum", "by", "unless", "on", "histogram_quantile"}
_SUFFIXES = ("_bucket", "_sum", "_count")


def _known() -> dict[str, set[str]]:
    """Labels by the names of series."""
    found: dict[str, set[str]] = {}
    for metric in map(describe, (*of_service(), *of_operator())):
        labels = {*metric.labels, "job", "namespace", "le"}
        for name in (metric.name, *(f"{metric.name}{suffix}" for suffix in _SUFFIXES)):
            found.setdefault(name, set()).update(labels)
    return found


def test_alerts_are_about_series_that_there_are() -> None:
    (block,) = [one for one in blocks(PAGE) if one.path == "fleet-alerts.yaml"]
    rules = [rule for group in yaml.safe_load(block.text)["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    known = _known()
    for rule in rules:
        expression = re.sub(r'"[^"]*"', '""', rule["expr"])
        assert expression.count("(") == expression.count(")")
        assert expression.count("{") == expression.count("}")
        bare = re.sub(r"\{[^}]*\}|\[\w+\]|(?:by|on) \([^)]*\)", " ", expression)
        series = set(re.findall(r"[a-z_]{2,}", bare)) - _WORDS
        assert series, rule["alert"]
        assert series <= known.keys(), rule["alert"]
        labels = set().union(*(known[name] for name in series))
        asked = set(re.findall(r"(\w+)(?:=~|!=|!~|=)\"", expression))
        asked |= {name.strip() for part in re.findall(r"(?:by|on) \(([^)]*)\)", expression) for name in part.split(",")}
        asked |= set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert asked <= labels, rule["alert"]


@pytest.mark.real_nodes
def test_prometheus_takes_the_alerts(tmp_path: Path) -> None:
    """Its own tool, from the image that labs have."""
    (recipe,) = find_recipes("prometheus:2.53")
    tool = tmp_path / "promtool"
    with tarfile.open(bake(recipe)) as image:
        for layer in (name for name in image.getnames() if name.endswith("/layer.tar")):
            with tarfile.open(fileobj=image.extractfile(layer)) as files:
                for member in (one for one in files if one.name.removeprefix("./") == "usr/bin/promtool"):
                    found = files.extractfile(member)
                    assert found is not None
                    tool.write_bytes(found.read())
    tool.chmod(0o755)
    (block,) = [one for one in blocks(PAGE) if one.path == "fleet-alerts.yaml"]
    rules = tmp_path / "fleet-alerts.yaml"
    rules.write_text(block.text, encoding="utf-8")
    done = subprocess.run([tool, "check", "rules", rules], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 rules found" in done.stdout
