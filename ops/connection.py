"""Finds Postgres and Redis for a command: those of the settings, or those of a running `backscroll up`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretStr, TypeAdapter, ValidationError

from ops import stack
from schemas.errors import DatabaseUnavailable, InvalidInput, SettingsError
from schemas.payloads import TenantId
from schemas.settings import Settings, load_settings

if TYPE_CHECKING:
    from celery import Celery

    from ops.client import Api
    from pipeline.store.database import Database

# The options that every command has which works on data.
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Of `backscroll up`; default: BACKSCROLL_DATA_DIR.",
        show_default=False,
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", help="Whose data; default: BACKSCROLL_TENANT.", show_default=False),
]

_tenant = TypeAdapter(TenantId)


def configured(data_dir: Path | None = None, tenant: str | None = None) -> Settings:
    """The settings, with what the command line says on top. Raises `SettingsError`, and `InvalidInput` for `tenant`."""
    if tenant is not None:
        try:
            _tenant.validate_python(tenant)
        except ValidationError:
            raise InvalidInput(
                f"--tenant {tenant!r} must have 1 to 100 characters, all of them letters, digits or _ . : -",
                field="tenant",
            ) from None
    given = {"data_dir": data_dir and data_dir.absolute(), "tenant": tenant}
    return load_settings(**{name: value for name, value in given.items() if value is not None})


def open_stack(data_dir: Path | None = None, tenant: str | None = None) -> Settings:
    """The settings with the URLs of Postgres and Redis filled in.

    What the environment does not name is taken from the `backscroll up` that runs with the data folder, its
    embedder too: without it a question would go to another model than the messages did.
    Raises `SettingsError`, and `DatabaseUnavailable` when neither says where Postgres is.
    """
    settings = configured(data_dir, tenant)
    if settings.database_url and settings.redis_url:
        return settings
    running = _running(settings)
    if running is None:
        if settings.database_url:
            # without Redis what only reads works
            return settings
        raise DatabaseUnavailable(
            f"Nothing runs with the data folder {settings.data_dir}: start it with `backscroll up`, or set "
            "BACKSCROLL_DATABASE_URL (and BACKSCROLL_REDIS_URL) to servers of your own."
        )
    found = {"redis_url": running.redis_url, "api_key": running.api_key}
    if settings.database_url is None:
        found |= {
            "database_url": running.database_url,
            "maintenance_database_url": running.maintenance_database_url,
            "owner_database_url": running.owner_database_url,
        }
    missing: dict[str, object] = {
        name: SecretStr(value) for name, value in found.items() if getattr(settings, name) is None
    }
    if (
        settings.database_url is None
        and settings.embedding_provider is None
        and settings.embedding_model is None
    ):
        missing |= {
            "embedding_provider": running.embedding_provider,
            "embedding_model": running.embedding_model,
        }
    return settings.model_copy(update=missing)


def running_api(settings: Settings, data_dir: Path | None, tenant: str | None) -> "Api | None":
    """The HTTP API to ask instead of loading a model: that of the settings, or of the `backscroll up` that runs.

    `data_dir` and `tenant` are what the command line says; a folder that is named there stands above the URL of the
    settings. None when another tenant's data is asked for than the API serves, and for a database that is not the
    running one's. Raises `SettingsError`.
    """
    from ops.client import Api

    key = settings.api_key.get_secret_value() if settings.api_key else None
    if settings.url is not None and data_dir is None:
        if tenant is not None:
            # which tenant it serves goes by its key
            return None
        if key is None:
            raise SettingsError(
                "BACKSCROLL_URL is set and BACKSCROLL_API_KEY is not: set it to the key of that Backscroll"
            )
        return Api(url=settings.url, api_key=key)
    running = _running(settings)
    if running is None or (running.tenant or settings.tenant) != settings.tenant:
        return None
    if settings.database_url and settings.database_url.get_secret_value() != running.database_url:
        return None
    return Api(url=running.door_url, api_key=running.api_key)


def _running(settings: Settings) -> stack.Running | None:
    """The `backscroll up` that runs with the data folder. Raises `SettingsError` for somebody else's folder."""
    try:
        return stack.running(settings.data_dir)
    except PermissionError as error:
        raise SettingsError(
            f"The data folder {settings.data_dir} belongs to somebody else: run this as its owner, or name "
            "another by --data-dir or BACKSCROLL_DATA_DIR."
        ) from error


def open_database(settings: Settings) -> "Database":
    """A database whose login and tables have been checked.

    Raises `SettingsError`, `SchemaOutdated` or `DatabaseUnavailable`.
    """
    from pipeline.store.database import Database

    database = Database.from_settings(settings)
    try:
        database.check()
    except DatabaseUnavailable as error:
        database.close()
        raise DatabaseUnavailable(
            f"{error}. Try again in a moment; if that does not help, start it, or set "
            "BACKSCROLL_DATABASE_URL to where it is."
        ) from error
    return database


def open_queue(settings: Settings) -> "Celery":
    """The Celery application to hint with; connects at its first use. Raises `SettingsError`."""
    from workers.app import make_app

    return make_app(settings)
