"""SQL of durable jobs, their claims, dead letters and backfills."""
