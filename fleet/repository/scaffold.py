"""A new repository from the template beside this file; everything in it works without changes.

In the template, `dot-` stands for the dot of hidden files and `.in` ends the names of Python files: tools that look at
our own tree leave them alone then. `@name@` stands for the fleet's name, which is the directory's with some letters
that make it unlike any other, `@version@` for this release. A test checks what comes out.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from fleet.errors import ConfigurationError
from fleet.version import __version__

TEMPLATE = Path(__file__).parent / "template"
SCHEMA_FILE = "fleet.schema.json"
DIRECTIVE = f"#:schema ./{SCHEMA_FILE}"  # the first line of a fleet.toml, as Taplo and editors with it read it


def write_repository(directory: Path) -> tuple[str, ...]:
    """Write the files and return their names. Raise ConfigurationError, and write nothing, when any of them exists
    already.
    """
    files = {_target_name(path): path.read_bytes() for path in sorted(TEMPLATE.rglob("*")) if _is_template_file(path)}
    existing = [name for name in files if (directory / name).exists() or (directory / name).is_symlink()]
    if existing:
        names = ", ".join(existing[:3]) + (f" and {len(existing) - 3} more" if len(existing) > 3 else "")
        raise ConfigurationError(
            f"{directory} has {names} already, and nothing is overwritten",
            hint="name a new directory: fleet init DIR",
        )
    files["fleet.toml"] = files["fleet.toml"].replace(b"@name@", generate_name(directory).encode())
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.replace(b"@version@", __version__.encode()))
    return tuple(files)


def write_schema(root: Path) -> str:
    """Write the schema of this release beside a fleet.toml, in place of the one that is there. Return its name."""
    path = root / SCHEMA_FILE
    path.unlink(missing_ok=True)  # a link to another file must not lead there
    path.write_bytes((TEMPLATE / SCHEMA_FILE).read_bytes())
    return SCHEMA_FILE


def generate_name(directory: Path) -> str:
    slug = re.sub("[^a-z0-9]+", "-", directory.resolve().name.lower())[:40].strip("-")
    return f"{slug or 'fleet'}-{secrets.token_hex(3)}"


def _target_name(path: Path) -> str:
    parts = path.relative_to(TEMPLATE).parts
    return "/".join(re.sub("^dot-", ".", part).removesuffix(".in") for part in parts)


def _is_template_file(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
