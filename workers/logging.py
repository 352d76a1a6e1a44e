"""Logs: one JSON object a line on standard error, the standard library's loggers included."""

import logging
import sys
from typing import Any

import structlog

_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
_render = structlog.processors.JSONRenderer()


class WithoutBodies(logging.Filter):
    """A filter that cuts Celery's reports of unreadable messages, which quote them, to the first line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, cut if it is such a report."""
        if record.name == "celery.worker.consumer.consumer" and "body" in str(record.msg):
            summary = str(record.msg).strip().partition("\n")[0].partition(":")[0].removesuffix(" %s.")
            reason = record.exc_info[0] if record.exc_info else None
            unknown = record.args[0] if isinstance(record.args, tuple) and "unregistered" in summary else None
            record.msg = summary + (f" {unknown}" if unknown else f" ({reason.__name__})" if reason else "")
            # the error's own text may quote the message
            record.args, record.exc_info = (), None
        return True


def configure_logging(level: str = "info") -> None:
    """Let every logger of this process write JSON lines at `level` and above."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _stamp,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(WithoutBodies())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _render,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Celery logs every received and finished task; at info that drowns what happened.
    for chatty in ("celery.worker.strategy", "celery.app.trace", "httpx", "sentence_transformers"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def write_line(logger: str, level: str, **fields: Any) -> None:
    """Write a log line at a quarter of a logger's cost: for what is logged of each request."""
    if logging.getLogger(logger).isEnabledFor(logging.getLevelNamesMapping()[level.upper()]):
        line = structlog.contextvars.get_contextvars() | fields | {"level": level, "logger": logger}
        sys.stderr.write(f"{_render(None, level, _stamp(None, level, line))!s}\n")
