"""Figures of the rooms of this repository: `python -m docs.tools.rooms` prints those that docs/design.md has.

They are counted from the files. What is called on the way of a commit is measured by running one, as the page says.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median

ROOT = Path(__file__).parents[2]
PACKAGES = ("fleet", "operator/fleet_operator")
TEMPLATE = ROOT / "fleet" / "repository" / "template"  # of `fleet init`: files of users
ENGINES = tuple(ROOT / path for path in ("fleet/apps", "fleet/kit", "operator/fleet_operator/core"))
SHORT = 60  # lines


def main() -> None:
    files = [
        file
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        if not file.is_relative_to(TEMPLATE) and "__pycache__" not in file.parts
    ]
    others = [file for file in files if not any(file.is_relative_to(place) for place in ENGINES)]
    for title, part in (("everything", files), ("without what is about engines", others)):
        modules = [file for file in part if file.name != "__init__.py"]
        lines = [len(file.read_text(encoding="utf-8").splitlines()) for file in modules]
        folder, siblings = Counter(file.parent for file in modules).most_common(1)[0]
        print(f"{title}:")
        print(f"  import units: modules (with packages): {len(modules)} ({len(part)})")
        print(f"  lines of a module: median, mean: {median(lines):.0f}, {mean(lines):.0f}")
        print(f"  modules below {SHORT} lines: {sum(count < SHORT for count in lines)}")
        print(f"  largest folder: {siblings} ({folder.relative_to(ROOT)})")
    print(f"class names with more than one definition: {len(list(_repeated_classes(files)))}")


def _repeated_classes(files: Iterable[Path]) -> Iterable[str]:
    places: dict[str, set[Path]] = defaultdict(set)
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(file)
    return (name for name, definitions in places.items() if len(definitions) > 1)


if __name__ == "__main__":
    main()
