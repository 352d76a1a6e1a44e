"""Postgres and Redis from installed wheels, with their data in the data folder."""
