"""SQL of durable work: jobs, their claims, dead letters, backfills."""
