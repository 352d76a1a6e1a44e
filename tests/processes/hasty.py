"""A worker whose shutdown may hang for a second instead of ten, if it imports this (`-I tests.processes.hasty`)."""

from workers import shutdown

vars(shutdown).update(CLOSING_SECONDS=1.0)
