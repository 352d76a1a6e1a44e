"""Access to Postgres: pools, transactions, statements, and log lines written after a commit."""
