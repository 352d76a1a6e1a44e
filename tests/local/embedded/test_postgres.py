"""Stories about the embedded Postgres: it keeps its data, comes back after anything, lets nobody else in."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from ops.local.embedded.binaries import postgres_installations
from ops.local.embedded.folder import DataFolderError
from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.server import ServerFailed, free_port
from schemas.errors import Permanent


@contextmanager
def as_owner(server: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn("owner")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS words (word text PRIMARY KEY)")
        yield connection


def remember(server: EmbeddedPostgres, word: str) -> None:
    with as_owner(server) as connection:
        connection.execute("INSERT INTO words VALUES (%s)", [word])


def recall(server: EmbeddedPostgres) -> set[str]:
    with as_owner(server) as connection:
        return {row[0] for row in connection.execute("SELECT word FROM words").fetchall()}


def cluster_of(server: EmbeddedPostgres) -> Path:
    return next(server.data_dir.glob("postgres-[0-9]*"))


def test_data_survives_stops_and_crashes_and_the_urls_stay(resting: EmbeddedPostgres) -> None:
    server = EmbeddedPostgres(resting.data_dir)
    server.start()
    server.start()
    url = server.dsn("app")
    remember(server, "before the stop")
    server.stop()
    assert not server.is_running()
    assert server.pid is None

    server.start()
    remember(server, "before the crash")
    server.kill()
    assert not server.is_running()

    # Given process numbers in the files left behind that belong to a living process of somebody else
    left = cluster_of(server) / "postmaster.pid"
    left.write_text("\n".join([str(os.getppid()), *left.read_text().splitlines()[1:]]) + "\n")
    (cluster_of(server) / ".s.PGSQL.5432.lock").write_text(f"{os.getppid()}\n")
    with server:
        assert recall(server) >= {"before the stop", "before the crash"}
        assert server.dsn("app") == url


def test_a_second_start_uses_the_one_that_runs_and_leaves_it_running(postgres: EmbeddedPostgres) -> None:
    with EmbeddedPostgres(postgres.data_dir) as second:
        assert second.pid == postgres.pid
        assert second.dsn("app") == postgres.dsn("app")
        assert not second.is_ours
    assert postgres.is_running()
    assert postgres.is_ours


def test_it_ends_with_the_process_that_started_it_even_a_killed_one(resting: EmbeddedPostgres) -> None:
    program = (
        "import pathlib, sys, time; from ops.local.embedded.postgres import EmbeddedPostgres;"
        "EmbeddedPostgres(pathlib.Path(sys.argv[1]), durable=False).start();"
        "print('up', flush=True); time.sleep(99)"
    )
    starter = subprocess.Popen([sys.executable, "-c", program, resting.data_dir], stdout=subprocess.PIPE)
    with starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        resting.start()
        assert resting.is_running()
        assert not resting.is_ours
        remember(resting, "from outside")
        starter.kill()
    # a start at this very moment waits for the end of the old one
    with resting as server:
        assert server.is_ours
        assert "from outside" in recall(server)


def test_a_folder_that_was_moved_works_whatever_its_path(resting: EmbeddedPostgres, tmp_path: Path) -> None:
    for name in ("späce %41+b & ' \" x", "long," + "x" * 90):
        moved = resting.data_dir.rename(tmp_path / name)
        with EmbeddedPostgres(moved, durable=False) as server:
            url = server.dsn("app")
            engine = sqlalchemy.create_engine(url)
            with engine.connect() as connection:
                assert connection.scalar(sqlalchemy.text("SELECT current_user")) == "backscroll_app"
            engine.dispose()
            remember(server, name)
        moved.rename(resting.data_dir)
    sockets = Path(str(sqlalchemy.make_url(url).query["host"]))
    assert not sockets.exists(), "the folder made for the socket is left behind"


def test_over_tcp_the_roles_get_in_and_the_superuser_does_not(resting: EmbeddedPostgres) -> None:
    port = free_port()
    with EmbeddedPostgres(resting.data_dir, host_tcp_port=port, durable=False) as server:
        with psycopg.connect(server.dsn("app", tcp=True)) as connection:
            assert connection.info.host == "127.0.0.1"
            assert connection.info.port == port
        superuser = psycopg.conninfo.make_conninfo(server.superuser_dsn(), host="127.0.0.1")
        with pytest.raises(psycopg.OperationalError, match="rejects connection"):
            psycopg.connect(superuser)


@pytest.mark.parametrize("user", ["postgres", "backscroll_app", "backscroll_owner"])
def test_nobody_gets_in_without_the_password(postgres: EmbeddedPostgres, user: str) -> None:
    for password in ("", "guess"):
        conninfo = psycopg.conninfo.make_conninfo(postgres.dsn("app"), user=user, password=password)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(conninfo)


def test_what_people_wrote_does_not_get_into_the_log(postgres: EmbeddedPostgres) -> None:
    remember(postgres, "a secret between friends")
    with pytest.raises(psycopg.errors.UniqueViolation):
        remember(postgres, "a secret between friends")
    log = postgres.log_path.read_text()
    assert "duplicate key" in log
    assert "secret" not in log


def test_the_newest_version_is_the_default_and_speaks_many_languages(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.dsn("app")) as connection:
        assert connection.info.server_version // 10000 == max(postgres_installations())
        vectors = connection.execute("SELECT '[1,2]'::halfvec(2) <=> '[2,4]'::halfvec(2) < 1e-6").fetchone()
        assert vectors == (True,)
        for language, words in (("german", "ÄPFEL äpfel"), ("russian", "ПРИВЕТ привет")):
            row = connection.execute("SELECT length(to_tsvector(%s::regconfig, %s))", [language, words])
            assert row.fetchall() == [(1,)], language


def test_an_ordinary_user_starts_it_in_a_path_with_a_space_and_root_may_step_in(
    ordinary_folder: Path, as_ordinary_user: Callable[[Callable[[], None]], None]
) -> None:
    def begin() -> None:
        with EmbeddedPostgres(ordinary_folder / "my data", durable=False) as server:
            remember(server, "by the user")

    def go_on() -> None:
        with EmbeddedPostgres(ordinary_folder / "my data", durable=False) as server:
            assert recall(server) == {"by the user", "by root, perhaps"}

    as_ordinary_user(begin)
    with EmbeddedPostgres(ordinary_folder / "my data", durable=False) as server:
        remember(server, "by root, perhaps")
        assert Path(f"/proc/{server.pid}").stat().st_uid == ordinary_folder.stat().st_uid
    as_ordinary_user(go_on)


def test_a_folder_that_cannot_be_written_to_is_named_with_what_to_do(
    ordinary_folder: Path, as_ordinary_user: Callable[[Callable[[], None]], None]
) -> None:
    folder = ordinary_folder / "data"
    folder.mkdir(mode=0o555)

    def story() -> None:
        with pytest.raises(Permanent) as caught:
            EmbeddedPostgres(folder).start()
        assert isinstance(caught.value, DataFolderError)
        assert str(folder) in str(caught.value)
        assert "BACKSCROLL_DATA_DIR" in str(caught.value)
        assert "chown -R" in str(caught.value)

    as_ordinary_user(story)


def test_a_folder_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(DataFolderError, match="Everybody may write"):
        EmbeddedPostgres(tmp_path).start()


def test_lost_passwords_are_named_instead_of_an_endless_wait(resting: EmbeddedPostgres) -> None:
    passwords = resting.data_dir / "postgres-passwords.json"
    kept = passwords.read_text()
    passwords.unlink()
    with pytest.raises(ServerFailed, match="is missing"):
        resting.start()
    assert not resting.is_running()
    passwords.write_text(kept)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")
def test_for_root_it_runs_without_any_rights_and_no_folder_is_opened_up(resting: EmbeddedPostgres) -> None:
    closed = resting.data_dir.parent
    before = closed.stat()
    assert stat.S_IMODE(before.st_mode) == 0o700
    with resting as server:
        process = Path(f"/proc/{server.pid}")
        assert process.stat().st_uid != 0
        assert f"\nCapEff:\t{0:016x}\n" in (process / "status").read_text()
    assert (closed.stat().st_mode, closed.stat().st_uid) == (before.st_mode, before.st_uid)
