"""A worker whose shutdown may hang for a second instead of ten, if it imports this (`-I tests.processes.hasty`)."""

from workers import signals

vars(signals).update(CLOSING_SECONDS=1.0)
