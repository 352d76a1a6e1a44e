"""Run migrations on the owner's connection: bounded waits, and never two at once.

The URL comes from the caller (`config.attributes["url"]`, see ops/commands/db.py) or, for the plain
`alembic` command, from BACKSCROLL_OWNER_DATABASE_URL.
"""

from alembic import context
from sqlalchemy import create_engine, pool, text

from schemas.errors import DatabaseUnavailable, SettingsError
from schemas.settings import load_settings
from schemas.tables import metadata

# Any constant will do; it names "migrating Backscroll" among the advisory locks of this database.
MIGRATING = 0x6261636B


def _url() -> str:
    if url := context.config.attributes.get("url"):
        return str(url)
    secret = load_settings().owner_database_url
    if secret is None:
        raise SettingsError(
            "BACKSCROLL_OWNER_DATABASE_URL is not set: migrations run as the owner of the tables"
        )
    return secret.get_secret_value()


def run() -> None:
    """Apply the migrations in one transaction each, unless somebody else is at it."""
    engine = create_engine(_url(), poolclass=pool.NullPool)
    with engine.connect() as connection:
        # A migration that cannot get its lock gives up soon: the messages behind it would wait as long.
        connection.execute(text("SET lock_timeout = '4s'"))
        connection.execute(text("SET statement_timeout = '600s'"))
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": MIGRATING}):
            raise DatabaseUnavailable(
                "another migration is running on this database: wait for it and try again"
            )
        connection.commit()
        context.configure(
            connection=connection,
            target_metadata=metadata,
            transaction_per_migration=True,
            compare_type=True,
            # indexes stand in the migrations alone: half of them are partial, GIN or of expressions
            include_object=lambda _object, _name, kind, _reflected, _other: kind != "index",
        )
        with context.begin_transaction():
            context.run_migrations()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": MIGRATING})
        connection.commit()
    engine.dispose()


run()
