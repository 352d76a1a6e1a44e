"""A database that refuses rows."""

from sqlalchemy import create_engine

from schemas.settings import Settings
from tests.harness.owner import owner_url

REFUSE = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF {condition} THEN RAISE EXCEPTION 'no session may be made of this'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON conversation_sessions FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def as_owner(settings: Settings, statement: str) -> None:
    engine = create_engine(owner_url(settings).replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def refuse(settings: Settings, condition: str = "'Mallory' = ANY(NEW.participants)") -> None:
    """Let Postgres refuse the sessions that fulfil a condition."""
    as_owner(settings, REFUSE.format(condition=condition))
