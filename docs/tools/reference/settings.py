"""fleet.toml: sections, defaults and meanings as the settings declare them, and the schema for editors."""

from __future__ import annotations

import json

from docs.tools.reference.text import cell, shown
from fleet.repository.scaffold import DIRECTIVE, SCHEMA_FILE, TEMPLATE
from fleet.repository.schema import describe_sections

SCHEMA = TEMPLATE / SCHEMA_FILE

ABOUT = f"""\
# fleet.toml

Settings of a repository, at its root. Everything has a default: an empty file is enough.

Editors with [Taplo](https://taplo.tamasfe.dev) (Even Better TOML in VS Code, and others) complete, explain and check
the file by a JSON schema. `fleet init` writes it beside the file as `{SCHEMA_FILE}`, and the file's first line refers
to it:

```toml
{DIRECTIVE}
```

Commit both: no network and no setting of the editor is needed. After an upgrade of fleet, and in a repository without
a schema, `fleet init --schema` writes that of the installed release. fleet itself does not read it.
"""


def settings() -> str:
    parts = [ABOUT]
    for name, description, declared in describe_sections():
        parts += [f"## [{name}]", "", shown(description), "", "| setting | default | meaning |", "|---|---|---|"]
        for setting in declared:
            default = json.dumps(setting.default, ensure_ascii=False)
            choices = ", ".join(f'`"{choice}"`' for choice in setting.value.schema().get("enum", ()))
            meaning = f"{setting.description} One of {choices}." if choices else setting.description
            parts.append(f"| `{setting.name}` | `{default}` | {cell(meaning)} |")
        parts.append("")
    return "\n".join(parts)
