"""When a question is asked, and since when there is talk."""

from datetime import UTC, datetime

EARLIEST = datetime(2025, 5, 1, tzinfo=UTC)
NOW = datetime(2026, 4, 15, tzinfo=UTC)
