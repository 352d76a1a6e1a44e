"""Write what the newest migration makes, and the checksums of the migrations, beside them."""

import hashlib
import tempfile
from contextlib import closing
from pathlib import Path

import migrations
from ops.local import migrate
from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.store.connections.database import Database
from pipeline.store.operations import catalog

FOLDER = Path(migrations.__file__).parent
SCHEMA, CHECKSUMS = FOLDER / "schema.txt", FOLDER / "checksums.txt"
# What runs a migration, and may change as long as what it makes does not.
_MACHINERY = {"__init__.py", "concurrently.py", "env.py", "partitioning.py", "patience.py"}


def write() -> None:
    """Write both files. A checksum that stands there is kept: a committed migration is never edited."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder), durable=False) as server:
        migrate.upgrade(server.dsn("owner"))
        with closing(Database(server.dsn("app"))) as database, database.unscoped() as connection:
            SCHEMA.write_text("".join(f"{line}\n" for line in catalog.lines(connection)), encoding="utf-8")
    known = written() if CHECKSUMS.exists() else {}
    frozen = checksums() | known
    CHECKSUMS.write_text("".join(f"{sha}  {name}\n" for name, sha in sorted(frozen.items())))


def written() -> dict[str, str]:
    """Return the committed checksum of each file, by its path in `migrations/`."""
    return {name: sha for sha, name in map(str.split, CHECKSUMS.read_text().splitlines())}


def checksums() -> dict[str, str]:
    """Return the present checksum of each file in `migrations/` that makes something."""
    paths = (path for path in FOLDER.rglob("*") if path.suffix in {".py", ".sql"})
    files = sorted(path.relative_to(FOLDER).as_posix() for path in paths)
    return {
        name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
        for name in files
        if name not in _MACHINERY
    }
