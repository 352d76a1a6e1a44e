"""Run migrations on the owner's connection: bounded waits, and never two at once.

The URL comes from the caller (`config.attributes["url"]`, see ops/local/migrate.py) or, for the plain
`alembic` command, from BACKSCROLL_OWNER_DATABASE_URL.
"""

from alembic import context
from sqlalchemy import Connection, create_engine, event, pool

from migrations import patience
from schemas.errors import SettingsError
from schemas.load_settings import load_settings
from schemas.server_urls import postgres_parameters


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
    """Apply the migrations in one transaction each, after any other migration that is running."""
    engine = create_engine(
        "postgresql+psycopg://", poolclass=pool.NullPool, connect_args=postgres_parameters(_url())
    )

    @event.listens_for(engine, "begin")
    def bound(connection: Connection) -> None:
        # Only in transactions: a concurrent build takes as long as its table is large, and blocks nobody.
        if connection.get_isolation_level() != "AUTOCOMMIT":
            milliseconds = int(patience.STATEMENT_SECONDS * 1000)
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{milliseconds}ms'")

    def migrate() -> None:
        # finished migrations stay when a later one does not get its locks
        context.configure(connection=connection, target_metadata=None, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()

    with engine.connect() as connection:
        # whatever the role or the database says
        connection.exec_driver_sql("SET statement_timeout = 0")
        connection.commit()
        with patience.alone(connection):
            patience.persistently(connection, migrate)
    engine.dispose()


run()
