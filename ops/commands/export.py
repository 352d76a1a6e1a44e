"""Export everything that is known of a user, a chat or a tenant."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from pydantic_core import to_json

from ops import connection
from ops.console import rendering
from ops.console.command import Call, ChatArgument, DataDirOption, SenderArgument, TenantOption, command
from ops.local.embedded.folder import explained, open_private
from schemas.errors import InvalidInput
from schemas.payloads import parse_payload
from schemas.people import UserAddress

export_app = typer.Typer(help=__doc__, rich_markup_mode="markdown", no_args_is_help=True)

# no line is longer
TAIL_BYTES = 2 * 1024 * 1024

_BEGINS = b'{"type":"row","of":"header"'

FileArgument = Annotated[Path, "File to write; one that was interrupted is continued."]


@command(export_app, "backscroll export user telegram:11 > telegram-11.jsonl", name="user")
def export_user(sender: SenderArgument, tenant: TenantOption = None, data_dir: DataDirOption = None) -> None:
    """Write a user's messages, memories, and the sessions they took part in: one JSON object on each line.

    The field `record` of a line says what it is: `user` (whom they are linked with), `message`, `memory`, `chat` (that
    they are in), `session` or `query`. All senders that are linked to them are included. Summaries of sessions mention
    others, too.
    """
    from pipeline.operations import lookup, transfer

    user_id = parse_payload(UserAddress, {"user_id": sender}).user_id
    with connection.opened(data_dir, tenant) as (settings, database):
        lookup.require_user(database, settings.tenant, user_id)
        for record in transfer.export_user(database, settings.tenant, user_id):
            rendering.print_json(record)


@command(export_app, "backscroll export chat telegram:-100420 harbour.jsonl", name="chat")
def export_chat(call: Call, chat: ChatArgument, file: FileArgument) -> None:
    """Write a chat with its members and what was learned in it, for `backscroll import` into another Backscroll."""
    _write(call, file, chat)


@command(export_app, "backscroll export tenant acme.jsonl --tenant acme", name="tenant")
def export_tenant(call: Call, file: FileArgument) -> None:
    """Write all of a tenant, for `backscroll import` into another Backscroll.

    That is chats, members, linked users, messages with their edits, sessions with their summaries, memories with their
    evidence, and documents. What was forgotten is not in it; the list that keeps it out is, with its key: keep the file
    as secret as the database. Not in it are vectors, which are made again, keys, sources, and the log of questions.
    """
    _write(call, file, None)


def _write(call: Call, path: Path, chat: str | None) -> None:
    from pipeline.operations import transfer

    with (
        call.opened() as (settings, database),
        explained(path.absolute().parent),
        os.fdopen(open_private(path.absolute(), os.O_RDWR), "r+b") as file,
    ):
        after = _continued(file, path, {"tenant": settings.tenant, "chat_id": chat})
        written = 0
        if after != transfer.END:
            for line in transfer.export(database, settings.tenant, chat, after):
                file.write(to_json(line) + b"\n")
                written += 1
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    done = (
        f"{written:,} lines written, {size:,} bytes"
        if written
        else "it is complete; for a newer one name another file"
    )
    call.answer(
        {"file": str(path.absolute()), "lines": written, "bytes": size},
        f"{path}: {done}. Elsewhere: backscroll import {path}",
    )


def _continued(file: IO[bytes], path: Path, subject: dict[str, Any]) -> str | None:
    """Cut off a line that was not finished, and return where the export was; None: at its beginning."""
    first = file.readline(TAIL_BYTES)
    if not first.endswith(b"\n") and (_BEGINS.startswith(first) or first.startswith(_BEGINS)):
        file.truncate(file.seek(0))
        return None
    header = _read(first)
    if header.get("of") != "header" or {name: header["row"].get(name) for name in subject} != subject:
        raise InvalidInput(f"{path} is there and is not this export: name another file", field="file")
    size = file.seek(0, os.SEEK_END)
    start = file.seek(max(0, size - TAIL_BYTES))
    tail = file.read()
    end = tail.rfind(b"\n") + 1
    last = _read(tail[:end].splitlines()[-1]) if end else {}
    is_complete = last.get("of") == "end"
    # without a place it is begun again
    keeps = is_complete or "at" in last
    file.truncate(file.seek(start + end if keeps else 0))
    return "end" if is_complete else last.get("at")


def _read(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
