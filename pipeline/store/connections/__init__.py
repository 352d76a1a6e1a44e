"""How Postgres is reached: pools, transactions, statements and what is said after a commit."""
