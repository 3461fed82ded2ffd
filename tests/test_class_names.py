"""Names of classes: each means one thing in the whole repository, but for those listed with the reason."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "fleet", ROOT / "operator" / "fleet_operator")
FIXTURES = {
    "Cluster",
    "Comment",
    "Forge",
    "Key",
    "PullRequest",
    "Repository",
    "Request",
    "S3",
}  # fleet.testing's, public
PROXY_PLANS = {"Plan", "Rule", "State"}  # fleet.testing.proxy's, public
JSON_SCHEMA = {"Change", "Object", "Pair", "Step"}  # titles in the published schema of previews
RUNTIME = {"Lease", "Resource", "Result"}  # fleet.kube.runtime's, public: controller-runtime's words
SETTINGS = {"Forge"}  # of fleet.toml
APPS = {"Client", "Discovery", "Etcd", "Member", "MemberStatus", "Problem", "State"}  # of an engine's two halves
ALLOWED = FIXTURES | PROXY_PLANS | JSON_SCHEMA | RUNTIME | SETTINGS | APPS


def test_a_name_of_a_class_means_one_thing() -> None:
    counts = Counter(
        node.name
        for source in SOURCES
        for file in source.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    double = {name for name, count in counts.items() if count > 1}
    assert double - ALLOWED == set(), "call one of them something else"
    assert ALLOWED - double == set(), "no longer double: take it off the list"
