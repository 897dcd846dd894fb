"""Logs as one JSON object a line, each with the key of the object that was being worked on."""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from ballast_operator.objects import Key

log = logging.getLogger(__name__)
current: ContextVar[Key | None] = ContextVar("current", default=None)


class JsonFormatter(logging.Formatter):
    """time, level, logger, message, and kind, namespace, name of the object at hand."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if key := current.get():
            entry |= {"kind": key.kind, "namespace": key.namespace, "name": key.name}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure(level: str = "INFO") -> None:
    """Send everything to standard error in this form, what ends the process too; kopf only when it warns."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel("WARNING")
    sys.excepthook = _ended


def _ended(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    log.critical("the process ends: %s: %s", kind.__name__, error, exc_info=(kind, error, at))
