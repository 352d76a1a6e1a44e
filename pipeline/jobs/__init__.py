"""Durable work in Postgres: enqueue, claim under a lease, retry, give up."""
