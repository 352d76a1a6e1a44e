"""The walks would find a leak: there is something to be found in every table, and in every text of it."""

import psycopg

from tests.hostile import victims
from tests.hostile.conftest import Stage
from tests.hostile.victims import SECRET, VICTIM
from tests.tables import OF_TENANTS


def test_there_is_something_of_the_victim_in_every_table(stage: Stage) -> None:
    assert [table for table in OF_TENANTS if not stage.known.rows[table]] == []


def test_every_text_of_the_victim_holds_the_secret(stage: Stage) -> None:
    with psycopg.connect(stage.superuser_url) as connection:
        for table, column, _ in victims.texts(connection):
            statement = f"SELECT count(*) FROM {table} WHERE tenant_id = %s AND {column}::text LIKE %s"
            found = connection.execute(statement, [VICTIM, f"%{SECRET}%"]).fetchone()  # type: ignore[arg-type]
            assert found[0], f"{table}.{column}"


def test_a_change_of_the_victim_s_rows_would_be_seen(stage: Stage) -> None:
    assert stage.before == victims.state(stage.superuser_url)
    assert stage.before["messages"] != victims.state(stage.superuser_url, "mallory")["messages"]


def test_whoever_serves_all_tenants_reads_nothing_that_people_wrote(stage: Stage) -> None:
    with psycopg.connect(stage.superuser_url) as connection:
        readable = {
            f"{table}.{column}"
            for table, column, _ in victims.texts(connection)
            for row in connection.execute(
                "SELECT has_column_privilege('backscroll_maintenance', %s, %s, 'SELECT')", [table, column]
            )
            if row[0]
        }
    # only how work is going
    work = {"arrivals", "backfills", "jobs", "refused_payloads"}
    errors = {f"{table}.error" for table in work} | {"jobs.last_error"}
    assert readable <= errors | {"backfills.cursor", "backfills.filter", "tenants.settings"}
