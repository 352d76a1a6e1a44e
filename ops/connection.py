"""Find Postgres, Redis and the HTTP API for a command: those of the settings, or of a running `backscroll up`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import SecretStr, TypeAdapter, ValidationError
from rich.console import Console

from ops.console import rendering
from ops.local import stack
from schemas.errors import (
    ApiUnavailable,
    BackscrollError,
    DatabaseUnavailable,
    InvalidInput,
    NotFound,
    SettingsError,
)
from schemas.load_settings import load_settings
from schemas.payloads import TenantId
from schemas.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

    from ops.client import Api
    from pipeline.store.chats.chats import Chat
    from pipeline.store.connections.database import Database

# A start takes seconds, and longer where tables are migrated.
START_SECONDS = 180.0
POLL_SECONDS = 0.2

_tenant = TypeAdapter(TenantId)


class Opened(NamedTuple):
    """What a command works on: the settings and a checked database."""

    settings: Settings
    database: Database

    def find_chat(self, chat_id: str) -> Chat:
        """Find a chat. Raises `NotFound`, which names the nearest."""
        from pipeline.operations import lookup

        with self.database.tenant(self.settings.tenant) as connection:
            return lookup.find_chat(connection, chat_id)

    def require_user(self, *ids: str, unseen: bool = False) -> None:
        """Raise `NotFound` for an id that was never seen, unless `--unseen` was given."""
        from pipeline.operations import lookup

        for user_id in ids:
            require_seen(
                partial(lookup.require_user, self.database, self.settings.tenant, user_id), unseen=unseen
            )


def configured(data_dir: Path | None = None, tenant: str | None = None) -> Settings:
    """Load the settings, overridden by the command line. Raises `SettingsError`, and `InvalidInput` for `tenant`."""
    if tenant is not None:
        try:
            _tenant.validate_python(tenant)
        except ValidationError:
            raise InvalidInput(
                f"--tenant {tenant!r} must have 1 to 100 characters, all of them letters, digits or _ . : -",
                field="tenant",
            ) from None
    overrides = {"data_dir": data_dir and data_dir.absolute(), "tenant": tenant}
    return load_settings(**{name: value for name, value in overrides.items() if value is not None})


def open_stack(data_dir: Path | None = None, tenant: str | None = None) -> Settings:
    """Load the settings, taking missing URLs from a running `backscroll up`. Raises `DatabaseUnavailable`."""
    settings = configured(data_dir, tenant)
    if settings.database_url and settings.redis_url:
        return settings
    running = _running(settings)
    if running is None and settings.database_url:
        # without Redis, commands that only read work
        return settings
    if running is None:
        raise DatabaseUnavailable(
            f"{stack.absence(settings.data_dir)[1]}, or set BACKSCROLL_DATABASE_URL (and BACKSCROLL_REDIS_URL) to "
            "servers of your own."
        )
    names = ["redis_url", "api_key"]
    if settings.database_url is None:
        names += ["database_url", "maintenance_database_url", "owner_database_url"]
    missing: dict[str, object] = {
        name: SecretStr(getattr(running, name)) for name in names if getattr(settings, name) is None
    }
    explicit = settings.model_fields_set
    missing |= {name: url for name, url in running.model_servers.items() if name not in explicit}
    return settings.model_copy(update=missing)


def require_seen(look_up: Callable[[], None], *, unseen: bool) -> None:
    """Look up an id that is about to be changed, unless `--unseen` was given. Raises `NotFound`, which names that."""
    if unseen:
        return
    try:
        look_up()
    except NotFound as error:
        raise NotFound(f"{error} (for somebody who is still to come: --unseen)") from None


def running_api(settings: Settings, data_dir: Path | None, tenant: str | None) -> Api | None:
    """Find the HTTP API to ask: that of the settings, or of a running `backscroll up`.

    `data_dir` and `tenant` are the command line's; a data folder named there takes precedence over the URL of the
    settings. None if the API serves another tenant or database than asked for. Raises `SettingsError`.
    """
    from ops.client import Api

    key = settings.api_key.get_secret_value() if settings.api_key else None
    if settings.url is not None and data_dir is None:
        if tenant is not None:
            # its key determines the tenant that it serves
            return None
        if key is None:
            raise SettingsError(
                "BACKSCROLL_URL is set and BACKSCROLL_API_KEY is not: set it to the key of that Backscroll"
            )
        return Api(url=settings.url, api_key=key)
    running = _running(settings)
    if running is None or running.tenant != settings.tenant:
        return None
    if settings.database_url and settings.database_url.get_secret_value() != running.database_url:
        return None
    api_log = settings.data_dir / "logs/api.log"
    advice = f"`backscroll up` (process {running.pid}) restarts it: try again in a moment. Its log: {api_log}"
    return Api(url=running.api_url, api_key=running.api_key, advice=running.failing.get("api", advice))


def require_api(data_dir: Path | None, tenant: str | None) -> Api:
    """Find the HTTP API to ask, see `running_api`. Raises `ApiUnavailable` if there is none."""
    settings = configured(data_dir, tenant)
    api = running_api(settings, data_dir, tenant)
    if api is None:
        reason = f"No running Backscroll serves the tenant {settings.tenant} with the data folder {settings.data_dir}"
        if _running(settings) is None:
            reason = stack.absence(settings.data_dir)[1]
        raise ApiUnavailable(f"{reason}, or set BACKSCROLL_URL and BACKSCROLL_API_KEY to one elsewhere.")
    return api


def _running(settings: Settings) -> stack.Running | None:
    """Read the state of `backscroll up` in the data folder, waiting for one that starts.

    Raises `SettingsError` for a folder of another user.
    """
    waited = 0.0
    try:
        while stack.absence(settings.data_dir)[0] == "starting" and waited < START_SECONDS:
            if not waited:
                rendering.warn(
                    f"`backscroll up` is starting with the data folder {settings.data_dir}; waiting for it"
                )
            time.sleep(POLL_SECONDS)
            waited += POLL_SECONDS
        return stack.running(settings.data_dir)
    except PermissionError as error:
        raise SettingsError(
            f"The data folder {settings.data_dir} belongs to another user: run this as its owner, or name "
            "another folder with --data-dir or BACKSCROLL_DATA_DIR."
        ) from error


@contextmanager
def opened(data_dir: Path | None, tenant: str | None, *, judges: bool = False) -> Iterator[Opened]:
    """Open a checked database for a block, and the settings, as the running processes have them.

    A command that `judges` by them says how it knows. Raises as `open_stack` and `open_database` do.
    """
    from pipeline.operations.deployment import Deployment

    settings = open_stack(data_dir, tenant)
    with closing(open_database(settings)) as database:
        with database.tenant("") as connection:
            running = Deployment.of(connection)
        for note in running.notes(settings) if judges else ():
            rendering.warn(f"{note}.")
        yield Opened(running.over(settings), database)


def open_database(settings: Settings) -> Database:
    """Open a database and check its login and tables. Raises what `Database.check` does, with advice."""
    from pipeline.store.connections.database import Database

    database = Database.from_settings(settings)
    try:
        database.check()
    except BackscrollError as error:
        database.close()
        if not isinstance(error, DatabaseUnavailable):
            raise
        raise DatabaseUnavailable(
            f"{error}. Try again in a moment; if that does not help, start it, or set "
            "BACKSCROLL_DATABASE_URL to where it is."
        ) from error
    return database


def owner_url(settings: Settings, why: str) -> str:
    """Return the URL of the tables' owner, which is needed for the reason `why`. Raises `SettingsError`."""
    if settings.owner_database_url is None:
        raise SettingsError(f"BACKSCROLL_OWNER_DATABASE_URL is not set: {why} (see `backscroll db roles`)")
    return settings.owner_database_url.get_secret_value()


def open_queue(settings: Settings) -> Celery:
    """Make the Celery application, which connects at its first use. Raises `SettingsError`."""
    from workers.app import make_app

    return make_app(settings)


def wake(settings: Settings, *kinds: str) -> None:
    """Wake the workers of these kinds of jobs."""
    with wake_ups(settings, rendering.err()) as wake_up:
        for kind in kinds:
            wake_up(kind)


@contextmanager
def wake_ups(settings: Settings, console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that wakes the workers of a job kind; without Redis, say once that the sweep finds jobs."""
    from kombu.exceptions import OperationalError

    from workers import queues

    problem = None if settings.redis_url else "BACKSCROLL_REDIS_URL is not set"
    queue = open_queue(settings) if settings.redis_url else None
    tried = False

    def wake_up(kind: str) -> None:
        nonlocal problem, tried
        if queue is not None and not tried:
            try:
                queues.length(queue, queues.OF_KIND[kind].full_name)
            except OperationalError as error:
                problem = str(error)
        if problem is None and queue is not None:
            queues.wake_up(queue, kind)
        elif not tried:
            console.print(
                f"Redis does not answer ({problem}). Nothing is lost: due jobs are in Postgres, and the workers find "
                "them when Redis is back and `backscroll beat` runs.",
                markup=False,
                style="yellow",
            )
        tried = True

    try:
        yield wake_up
    finally:
        if queue is not None:
            queue.close()
