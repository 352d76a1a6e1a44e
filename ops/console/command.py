"""What commands on data have in common: their options, the database these open, and how an answer is printed."""

import functools
import inspect
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from rich.console import RenderableType
from typer.core import TyperGroup

from ops import connection
from ops.console import rendering
from ops.console.options import DataDirOption, JsonOption, TenantOption
from schemas.errors import InvalidInput, NotFound
from schemas.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pipeline.store.database import Database


@dataclass(frozen=True, kw_only=True)
class Call:
    """The options of every command on data."""

    as_json: JsonOption = False
    tenant: TenantOption = None
    data_dir: DataDirOption = None

    @contextmanager
    def opened(self) -> "Iterator[tuple[Settings, Database]]":
        """Open the settings and a checked database for a block. Raises as `ops.connection` does."""
        with connection.opened(self.data_dir, self.tenant) as (settings, database):
            yield settings, database

    @contextmanager
    def transaction(self) -> "Iterator[tuple[Settings, Connection]]":
        """Open the settings and one transaction as the tenant for a block."""
        with self.opened() as (settings, database), database.tenant(settings.tenant) as opened:
            yield settings, opened

    def answer(self, value: object, *shown: RenderableType) -> None:
        """Print the value as JSON with `--json`, else what is shown to people; texts are printed as they are."""
        if self.as_json:
            rendering.print_json(value)
            return
        for each in shown:
            if isinstance(each, str):
                print(rendering.plain(each))
            else:
                rendering.out().print(each)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask on standard error, unless `--yes` was given. Raises `Abort`, and `InvalidInput` with `--json`."""
        if not yes:
            self.require_no_question("yes", "--yes")
            typer.confirm(question, abort=True, err=True)

    def require_no_question(self, field: str, option: str) -> None:
        """Raise `InvalidInput` with `--json`, where nobody is there to answer."""
        if self.as_json:
            raise InvalidInput(f"--json asks no questions: add {option}", field=field)


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Expand the parameters of a command that are dataclasses into options, one for each field; `Call` comes last."""
    own = sorted(
        inspect.signature(function, eval_str=True).parameters.values(),
        key=lambda each: each.annotation is Call,
    )
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}
    options = []
    for each in own:
        if each.name not in groups:
            options.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(each.annotation, include_extras=True)
        options += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in fields(each.annotation)
        ]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        function(**made, **given)

    # Typer reads the options from these
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in options}
    return command


class ListByDefault(TyperGroup):
    """A group whose `list` is meant where no other command is named: `backscroll chats --json`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put `list` in front of options that name no command; `--help` still lists all commands."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def require_seen(look_up: Callable[[], None], *, unseen: bool) -> None:
    """Look up an id that is about to be changed, unless `--unseen` was given.

    Raises `NotFound`, which says how to change it all the same.
    """
    if unseen:
        return
    try:
        look_up()
    except NotFound as error:
        raise NotFound(f"{error} (for somebody who is still to come: --unseen)") from None


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
