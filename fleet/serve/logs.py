"""Lines of the log: for people at a terminal, for programs as JSON, one object per line with the same words."""

from __future__ import annotations

import datetime
import logging
import sys
from typing import Any

from fleet.printable import escaped, printable, without_credentials

FIELDS = ("repository", "stack", "cluster", "revision", "sync", "health", "evaluated", "pull_request")


class JsonLines(logging.Formatter):
    """`extra` fields of a record become fields of the object."""

    def format(self, record: logging.LogRecord) -> str:
        import orjson  # noqa: PLC0415 - with the first line

        moment = datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(without_credentials(record.getMessage())),
        }
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped(orjson.dumps(line, default=str).decode())


def log_to_stderr(form: str, *, verbose: bool) -> None:
    """`form`: "json", "text", or "auto" for text at a terminal and JSON elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json" or (form == "auto" and not sys.stderr.isatty()):
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)
