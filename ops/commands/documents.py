"""`backscroll documents`: texts that the whole organization knows, cut into chunks that contexts cite."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ops.commands import rendering
from ops.commands.answering import LocalOption, answering
from ops.commands.opening import opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption
from schemas.documents import MAX_DOCUMENT_BYTES, MAX_PAGE, DocumentFilter, DocumentIn
from schemas.errors import InvalidInput
from schemas.messages import DEFAULT_LANGUAGE
from schemas.payloads import parse_payload

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)

STDIN = "-"
DocumentArgument = Annotated[str, typer.Argument(metavar="ID", help="The document's id.", show_default=False)]


@app.callback(
    epilog="**Examples:** backscroll documents add handbook.md --id handbook · backscroll documents list · "
    "backscroll documents remove handbook"
)
def documents() -> None:
    """Keep documents of the organization, for every chat: a context cites them as `Doc ID/Chunk N`."""


@app.command(
    epilog="**Examples:** backscroll documents add handbook.md · backscroll documents add rules.txt --id rules "
    "--language german · pdftotext lease.pdf - | backscroll documents add - --id lease"
)
def add(
    file: Annotated[
        Path,
        typer.Argument(help="Plain text or Markdown in UTF-8; - for standard input.", show_default=False),
    ],
    document_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="What it is cited and replaced by; default: the file's name.", show_default=False
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Where it is from, such as a URL; default: the file's path.", show_default=False),
    ] = None,
    language: Annotated[str, typer.Option(help="Of its keyword search.")] = DEFAULT_LANGUAGE,
    as_json: JsonOption = False,
    local: LocalOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Add a document, or put a new version in the place of the one with this id.

    It is cut into chunks that the embedding model reads whole, found by keyword at once and by meaning when workers
    have embedded it. Chunks that are as they were keep their vectors. The running Backscroll does it, as by
    `backscroll context`.
    """
    if document_id is None and str(file) == STDIN:
        raise InvalidInput("id: standard input has no name: add --id", field="id")
    given = parse_payload(
        DocumentIn,
        {
            "document_id": file.name if document_id is None else document_id,
            "content": _read(file),
            "source": source if source is not None else "" if str(file) == STDIN else str(file),
            "language": language,
        },
    )
    with (
        answering(data_dir, tenant, local=local) as answerer,
        rendering.patience("Cutting it for the model that will read it …", shown=not as_json),
    ):
        kept = answerer.keep(given)
    if as_json:
        rendering.print_json({"document_id": given.document_id, **vars(kept)})
        return
    written = f", {kept.written:,} of them written" if 0 < kept.written < kept.chunks else ""
    print(f"{rendering.plain(given.document_id)}: {kept.outcome}, {kept.chunks:,} chunks{written}")


@app.command("list", epilog="**Example:** backscroll documents list --json")
def list_(
    after: Annotated[str | None, typer.Option(help="Go on after this id.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="How many.")] = 100,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List documents in the order of their ids."""
    from pipeline.memories import documents as pipeline_documents

    given = parse_payload(DocumentFilter, {"after": after, "limit": limit})
    with opened(data_dir, tenant) as (settings, database):
        found = pipeline_documents.listing(database, settings.tenant, given)
    if as_json:
        rendering.print_json({"documents": found})
        return
    table = rendering.table("document", "chunks", "changed (UTC)", "language", "source", right=("chunks",))
    for each in found:
        changed = rendering.moment(each.changed_at)
        rendering.row(table, each.document_id, each.chunks, changed, each.language, each.source)
    rendering.out().print(table)
    if len(found) == limit:
        print(f"\nThere may be more: --after {rendering.plain(found[-1].document_id)}")


@app.command(epilog="**Example:** backscroll documents show handbook")
def show(
    document_id: DocumentArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show a document's chunks as they are found and cited."""
    from pipeline.memories import documents as pipeline_documents

    with opened(data_dir, tenant) as (settings, database):
        chunks = pipeline_documents.passages(database, settings.tenant, document_id)
    if as_json:
        rendering.print_json({"document_id": document_id, "chunks": chunks})
        return
    for each in chunks:
        print(
            f"── Doc {rendering.plain(document_id)}/Chunk {each.chunk_index}\n{rendering.plain(each.content)}\n"
        )


@app.command(epilog="**Example:** backscroll documents remove handbook")
def remove(
    document_id: DocumentArgument,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Remove a document with its chunks and their vectors; it may be added again."""
    from pipeline.memories import documents as pipeline_documents

    with opened(data_dir, tenant) as (settings, database):
        gone = pipeline_documents.remove(database, settings.tenant, document_id)
    if as_json:
        rendering.print_json({"document_id": document_id, "chunks": gone})
    else:
        print(f"{rendering.plain(document_id)}: removed, {gone:,} chunks")


def _read(file: Path) -> str:
    """The text of a file. Raises `InvalidInput` for what is none, or too long to be read at all."""
    try:
        if str(file) == STDIN:
            raw = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        else:
            with file.open("rb") as opened_file:
                raw = opened_file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", field="file") from error
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise InvalidInput(
            f"{file} has more than {MAX_DOCUMENT_BYTES} bytes: divide it into documents of its chapters",
            field="file",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{file} is not UTF-8 text: turn it into text first, such as with `pdftotext FILE -` or `pandoc -t plain`",
            field="file",
        ) from None
