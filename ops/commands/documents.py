"""Keep documents of the organization, for every chat, or of a user: a context cites them as `Doc ID/Chunk N`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ops.console import rendering
from ops.console.command import AfterOption, Call, UnseenOption, command
from schemas.errors import InvalidInput
from schemas.languages import DEFAULT_LANGUAGE
from schemas.memories import (
    MAX_DOCUMENT_BYTES,
    MAX_PAGE,
    DocumentFilter,
    DocumentIn,
    DocumentKept,
    DocumentOwner,
)
from schemas.payloads import parse_payload

app = typer.Typer(help=__doc__, rich_markup_mode="markdown", no_args_is_help=True)

STDIN = "-"
DocumentArgument = Annotated[str, typer.Argument(metavar="ID", help="The document's id.")]
UserOption = Annotated[str | None, "Of this user, by any of their ids (default: the organization's)."]


@command(app, "backscroll documents add handbook.md")
def add(
    call: Call,
    file: Annotated[Path, "Plain text or Markdown in UTF-8; - for standard input."],
    document_id: Annotated[
        str | None, typer.Option("--id", help="Id to cite and replace it by (default: file name).")
    ] = None,
    source: Annotated[str | None, "Where it comes from, such as a URL (default: the file's path)."] = None,
    language: Annotated[str, "Language of its keyword search."] = DEFAULT_LANGUAGE,
    user: Annotated[str | None, "For this user only, in direct chats where nobody else is."] = None,
    unseen: UnseenOption = False,
) -> None:
    """Add a document, or replace the one with this id by a new version.

    It is cut into chunks that the embedding model reads whole, found by keyword at once, and by meaning when workers
    have embedded it. Unchanged chunks keep their vectors. The running Backscroll is asked, as by `backscroll context`.
    A user who was never seen ends the command with 3.
    """
    if document_id is None and str(file) == STDIN:
        raise InvalidInput("id: standard input has no name: add --id", field="id")
    document = parse_payload(
        DocumentIn,
        {
            "document_id": file.name if document_id is None else document_id,
            "content": _read(file),
            "source": source if source is not None else "" if str(file) == STDIN else str(file),
            "language": language,
            "user_id": user,
        },
    )
    if document.user_id is not None:
        call.require_user(document.user_id, unseen=unseen)
    with rendering.patience("Cutting it for the model that will read it …", shown=not call.as_json):
        kept = call.api().post("/v1/documents", document, DocumentKept)
    written = f", {kept.written:,} of them written" if 0 < kept.written < kept.chunks else ""
    call.answer(
        {"document_id": document.document_id, **vars(kept)},
        f"{document.document_id}: {kept.outcome}, {kept.chunks:,} chunks{written}",
    )


@command(app, "backscroll documents list --json", name="list")
def list_(
    call: Call,
    user: UserOption = None,
    after: AfterOption = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Documents at most.")] = 100,
) -> None:
    """List documents of the organization or a user in the order of their ids."""
    from pipeline.memories import documents as pipeline_documents

    wanted = parse_payload(DocumentFilter, {"user_id": user, "after": after, "limit": limit})
    with call.opened() as (settings, database):
        documents = pipeline_documents.listing(database, settings.tenant, wanted)
    cells = [(row.document_id, row.chunks, row.changed_at, row.language, row.source) for row in documents]
    headings = ("document", "chunks", "changed (UTC)", "language", "source")
    next_page = rendering.more_after([row.document_id for row in documents], limit)
    call.answer({"documents": documents}, rendering.rows(headings, cells, right=("chunks",)), *next_page)


@command(app, "backscroll documents show handbook")
def show(call: Call, document_id: DocumentArgument, user: UserOption = None) -> None:
    """Show a document's chunks as they are found and cited."""
    from pipeline.memories import documents as pipeline_documents

    with call.opened() as (settings, database):
        chunks = pipeline_documents.passages(database, settings.tenant, document_id, _owner(user))
    call.answer(
        {"document_id": document_id, "chunks": chunks},
        *(f"── Doc {document_id}/Chunk {chunk.chunk_index}\n{chunk.content}\n" for chunk in chunks),
    )


@command(app, "backscroll documents remove handbook")
def remove(call: Call, document_id: DocumentArgument, user: UserOption = None) -> None:
    """Remove a document with its chunks and their vectors; it may be added again."""
    from pipeline.memories import documents as pipeline_documents

    with call.opened() as (settings, database):
        gone = pipeline_documents.remove(database, settings.tenant, document_id, _owner(user))
    call.answer({"document_id": document_id, "chunks": gone}, f"{document_id}: removed, {gone:,} chunks")


def _owner(user: str | None) -> str | None:
    """Check a user's id. Raises `InvalidInput`."""
    return parse_payload(DocumentOwner, {"user_id": user}).user_id


def _read(file: Path) -> str:
    """Read a text file, or standard input. Raises `InvalidInput` if it is no text, or too long."""
    try:
        if str(file) == STDIN:
            raw = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        else:
            with file.open("rb") as opened:
                raw = opened.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", field="file") from error
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise InvalidInput(
            f"{file} has more than {MAX_DOCUMENT_BYTES} bytes: divide it, such as into its chapters",
            field="file",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{file} is not UTF-8 text: turn it into text first, such as with `pdftotext FILE -` or `pandoc -t plain`",
            field="file",
        ) from None
