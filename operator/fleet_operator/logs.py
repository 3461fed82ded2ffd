"""The operator's log: a line is a record, whatever members, servers and tenants put into a message."""

from __future__ import annotations

import logging
from typing import Any

from fleet.text import printable


class Lines(logging.Formatter):
    """Keep a message on its line and without control characters; what belongs to it, a traceback, is indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return printable(super().formatMessage(record)).replace("\n", "\\n")

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(f"  {line}" for line in printable(super().formatException(ei)).split("\n"))
