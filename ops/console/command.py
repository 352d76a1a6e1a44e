"""What commands have in common: their options, the database they open, and how an answer is printed."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, tzinfo
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

import typer
from pydantic import BaseModel
from rich.console import RenderableType
from typer.core import TyperGroup

from ops import connection
from ops.connection import Opened
from ops.console import rendering
from schemas.errors import InvalidInput
from schemas.listing import ChatSummary
from schemas.payloads import parse_payload
from schemas.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ops.client import Api


Q = TypeVar("Q", bound=BaseModel)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
TenantOption = Annotated[str | None, "Tenant (default: BACKSCROLL_TENANT)."]
DataDirOption = Annotated[Path | None, "Data folder of `backscroll up` (default: BACKSCROLL_DATA_DIR)."]
ChatArgument = Annotated[str, typer.Argument(metavar="CHAT", help="The chat's id, as in telegram:-100420.")]
ChatOption = Annotated[str | None, "Chat; needed where there are several."]
InChatOption = Annotated[str | None, "Only this chat (default: all)."]
SenderArgument = Annotated[str, "The sender's id, as messages carry it."]
SessionKeyOption = Annotated[str | None, "Only this thread."]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Another wording to search with: a translation, a guess; repeatable."),
]
HydeOption = Annotated[
    bool, "Where little is found, search with an answer that BACKSCROLL_HYDE_MODEL makes up."
]
AsOfOption = Annotated[str | None, "What was believed at this time, as in 2026-05-31 (default: now)."]
AfterOption = Annotated[str | None, "Continue after this id."]
UnseenOption = Annotated[bool, "Accept an id that was never seen, as of somebody still to come."]
DryRunOption = Annotated[bool, "Only count; change nothing."]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_DURATION = re.compile(r"(\d{1,6}(?:\.\d+)?)\s*([a-z]+)")
_UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}


def read_time(text: str | None, field: str, zone: tzinfo = UTC) -> datetime | None:
    """Read a date, which begins at midnight, or a date and time, in this zone unless it has an offset.

    Raises `InvalidInput` that names the option.

    >>> from zoneinfo import ZoneInfo
    >>> read_time("2026-07-31", "since", ZoneInfo("Europe/Lisbon")).isoformat()
    '2026-07-31T00:00:00+01:00'
    """
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        at = at if at.tzinfo else at.replace(tzinfo=zone)
        at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"--{field} {text} is no date or time such as 2026-01-31 or 2026-01-31T18:00+01:00", field=field
        ) from error
    return at


def read_pair(text: str) -> tuple[str, str]:
    """Read a name and a text. Raises `InvalidInput`.

    >>> read_pair("topic=boiler")
    ('topic', 'boiler')
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"--metadata {text} must look like NAME=TEXT", field="metadata")
    return name, value


def read_seconds(text: str) -> float:
    """Read a duration as people write it, in seconds. Raises `InvalidInput`.

    >>> [read_seconds(text) for text in ("90s", "30 min", "2h", "7d")]
    [90.0, 1800.0, 7200.0, 604800.0]
    """
    parts = _DURATION.fullmatch(text.strip().lower())
    if parts is None or parts[2] not in _UNITS:
        raise InvalidInput(f"--older-than {text} is no duration such as 90s, 30min, 2h or 7d")
    return float(parts[1]) * _UNITS[parts[2]]


@dataclass(frozen=True, kw_only=True)
class Call:
    """The options of every command on data."""

    as_json: JsonOption = False
    tenant: TenantOption = None
    data_dir: DataDirOption = None

    def opened(self, *, judges: bool = False) -> AbstractContextManager[Opened]:
        """Open the settings and a checked database for a block, see `ops.connection.opened`."""
        return connection.opened(self.data_dir, self.tenant, judges=judges)

    def api(self) -> Api:
        """Find the HTTP API of the running Backscroll. Raises `ApiUnavailable`."""
        return connection.require_api(self.data_dir, self.tenant)

    def require_user(self, *ids: str, unseen: bool = False) -> None:
        """Raise `NotFound` for an id that was never seen, where the database can be reached from here."""
        settings = connection.configured(self.data_dir, self.tenant)
        if settings.url is None or self.data_dir is not None or settings.database_url is not None:
            with self.opened() as opened:
                opened.require_user(*ids, unseen=unseen)

    @contextmanager
    def transaction(self) -> Iterator[tuple[Settings, Connection]]:
        """Open the settings and one transaction as the tenant for a block."""
        with self.opened() as (settings, database), database.tenant(settings.tenant) as opened:
            yield settings, opened

    def answer(self, value: object, *shown: RenderableType) -> None:
        """Print the value as JSON with `--json`, else what is shown to people; texts are printed as they are."""
        if self.as_json:
            rendering.print_json(value)
            return
        for item in shown:
            if isinstance(item, str):
                print(rendering.plain(item))
            else:
                rendering.out().print(item)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on standard error, unless `--yes` was given. Raises `Abort`, and `InvalidInput` with `--json`."""
        if not yes:
            self.require_no_question("yes", "--yes")
            typer.confirm(rendering.plain(question), abort=True, err=True)

    def require_no_question(self, field: str, option: str) -> None:
        """Raise `InvalidInput` with `--json`, where nobody is there to answer."""
        if self.as_json:
            raise InvalidInput(f"--json asks no questions: add {option}", field=field)


def query_in(
    chat: ChatSummary,
    kind: type[Q],
    *,
    moments: Mapping[str, str | None] | None = None,
    **fields: Any,
) -> Q:
    """Make the query of a command in its chat; `moments` are times in the chat's zone unless they have an offset."""
    zone = ZoneInfo(chat.time_zone)
    fields |= {
        name: read_time(moment, name.replace("_", "-"), zone) for name, moment in (moments or {}).items()
    }
    values = {name: value for name, value in fields.items() if value is not None}
    return parse_payload(kind, {"chat_id": chat.chat_id, **values})


def command(
    app: typer.Typer, example: str, *, name: str | None = None, epilog: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to an app as a command with this example in its help."""
    return lambda function: app.command(name, epilog=f"**Example:** {example}\n\n{epilog}")(
        _with_options(function)
    )


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Expand parameters that are dataclasses into options, one for each field; `Call` comes last.

    An option or argument may be annotated with only its help; a flag that is off has no `--no-…` then.
    """
    params = sorted(
        inspect.signature(function, eval_str=True).parameters.values(),
        key=lambda param: param.annotation is Call,
    )
    groups: dict[str, Any] = {p.name: p.annotation for p in params if is_dataclass(p.annotation)}
    options = []
    for param in params:
        if param.name not in groups:
            options.append(param.replace(kind=param.KEYWORD_ONLY))
            continue
        hints = get_type_hints(param.annotation, include_extras=True)
        options += [
            param.replace(
                name=field.name, kind=param.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in fields(param.annotation)
        ]

    options = [_explicit(option) for option in options]

    @wraps(function)
    def expanded(**arguments: Any) -> None:
        made = {
            name: group(**{field.name: arguments.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        function(**made, **arguments)

    # Typer reads the options from these
    expanded.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    expanded.__annotations__ = {option.name: option.annotation for option in options}
    return expanded


def _explicit(parameter: inspect.Parameter) -> inspect.Parameter:
    """Make an option, or without a default an argument, of a parameter that is annotated with only its help."""
    kind, *rest = get_args(parameter.annotation) if get_origin(parameter.annotation) is Annotated else [None]
    if not rest or not isinstance(rest[0], str):
        return parameter
    flags = [f"--{parameter.name.replace('_', '-')}"] if parameter.default is False else []
    is_argument = parameter.default is parameter.empty
    made = typer.Argument(help=rest[0]) if is_argument else typer.Option(*flags, help=rest[0])
    return parameter.replace(annotation=Annotated[kind, made])


class ListByDefault(TyperGroup):
    """A group whose `list` is meant where no other command is named: `backscroll chats --json`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put `list` in front of options that name no command; `--help` still lists all commands."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def repeated(ctx: typer.Context, **changes: object) -> str:
    """Quote the command that was called for a shell, with these parameters changed."""
    values = ctx.params | changes
    words = ctx.command_path.split()
    param: Any
    for param in ctx.command.params:
        value = values.get(str(param.name))
        if value is None or value is False:
            continue
        if param.param_type_name == "argument":
            text = str(value)
            words.append(f"./{text}" if text.startswith("-") else text)
        elif param.is_flag:
            words.append(max(param.opts, key=len))
        else:
            words += [max(param.opts, key=len), str(value)]
    return shlex.join(words)
