"""What work there is, by the names that commands, queues and the database share."""

KINDS = ("ingest", "embed", "summarize", "backfill", "forget")
ARRIVAL = "arrival"
"""A message that stands aside as it could not be placed."""
PAYLOAD = "payload"
"""What a bot queued and nobody could accept."""
