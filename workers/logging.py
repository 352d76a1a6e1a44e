"""Log one JSON object a line on standard error, including the standard library's loggers."""

import logging
import re
import sys
import time
from typing import Any

import structlog

_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
_render = structlog.processors.JSONRenderer()


OUTAGES = "workers.outages"
"""The logger of warnings that repeat while a server is down."""
# Celery retries several times a second, and beat writes a traceback at each tick.
_REPEATING = {OUTAGES, "celery.worker.consumer.consumer", "celery.beat", "kombu.asynchronous.hub"}
REPEAT_SECONDS = 60.0
_DIGITS = re.compile(r"\d+")


ROUTINE = re.compile("accepted|jobs_run|session_(opened|reopened|closed|skipped|summarized)|swept")
"""Events without a failure that come with every payload, batch or session; at `debug` all are written."""


class OncePerMinute(logging.Filter):
    """A filter that passes a repeated outage warning, or a routine event, once a minute, and says how often it came."""

    def __init__(self) -> None:
        super().__init__()
        # when a line was last written, and how often it was suppressed since
        self._written: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record unless the same one, ignoring digits, was kept less than `REPEAT_SECONDS` ago."""
        fields = record.msg if isinstance(record.msg, dict) else {}
        event = str(fields.get("event"))
        is_routine = (
            ROUTINE.fullmatch(event) and not fields.get("failed") and logging.root.level > logging.DEBUG
        )
        if not is_routine and (record.name not in _REPEATING or record.levelno < logging.WARNING):
            return True
        line = f"{event} {fields.get('kind') if is_routine else fields.get('error', '')}"
        line = (line if fields else record.getMessage().strip()).partition("\n")[0]
        key, now = _DIGITS.sub("#", line), time.monotonic()
        written, held_back = self._written.get(key, (-REPEAT_SECONDS, 0))
        if now - written < REPEAT_SECONDS:
            self._written[key] = written, held_back + 1
            return False
        self._written = {k: v for k, v in self._written.items() if now - v[0] < 10 * REPEAT_SECONDS}
        self._written[key] = now, 0
        if fields:
            fields.update({"repeated": held_back} if held_back else {})
        else:
            record.msg, record.args, record.exc_info = line, (), None
            record.msg += f" (and {held_back} times since the last such line)" if held_back else ""
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
    handler.addFilter(OncePerMinute())
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
    # as that of a worker that runs as root
    logging.captureWarnings(capture=True)
    # every few seconds
    logging.getLogger("celery.beat").addFilter(lambda record: "Sending due task" not in str(record.msg))
    # Celery logs every received and finished task, which would hide the rest at info, and at debug what is in it.
    # httpx2 logs paths with ids.
    for chatty in (
        "celery.pool",
        "celery.worker.strategy",
        "celery.app.trace",
        "httpx",
        "httpx2",
        "mcp",
        "openai",
        "sentence_transformers",
    ):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def write_line(logger: str, level: str, **fields: Any) -> None:
    """Write a log line at a quarter of a logger's cost, for every request."""
    if logging.getLogger(logger).isEnabledFor(logging.getLevelNamesMapping()[level.upper()]):
        line = structlog.contextvars.get_contextvars() | fields | {"level": level, "logger": logger}
        sys.stderr.write(f"{_render(None, level, _stamp(None, level, line))!s}\n")
