"""An organization's documents: texts that are cut into chunks, found by the question and cited by their id."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from schemas.limits import Closed
from schemas.messages import DEFAULT_LANGUAGE, LANGUAGES, MAX_ID_CHARS, Id, cleaned

MAX_DOCUMENT_BYTES = 1024 * 1024
"""A longer text is a book: its chapters are better documents."""
PAGE = 100
MAX_PAGE = 500

DocumentId = Annotated[Id, Field(min_length=1, max_length=MAX_ID_CHARS)]


def _readable(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    if (size := len(value.encode())) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"is {size} bytes long; at most {MAX_DOCUMENT_BYTES} are taken: divide it")
    return value


def _known(value: str) -> str:
    if value not in LANGUAGES:
        raise ValueError(f"{value!r} is not one of {', '.join(LANGUAGES)}")
    return value


class DocumentIn(Closed):
    """A document to keep: the body of `POST /v1/documents`."""

    v: Literal[1] = 1
    # what it is cited and replaced by
    document_id: DocumentId
    # plain text or Markdown
    content: Annotated[str, BeforeValidator(cleaned), AfterValidator(_readable)]
    # where it is from: a path, a URL
    source: Annotated[Id, Field(max_length=MAX_ID_CHARS)] = ""
    # of its keyword search
    language: Annotated[str, AfterValidator(_known)] = DEFAULT_LANGUAGE


class DocumentFilter(Closed):
    """Which documents are listed: the parameters of `GET /v1/documents`."""

    # the last of the page before
    after: DocumentId | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE


class DocumentAddress(BaseModel):
    """A document by its id, as it stands in a path."""

    model_config = ConfigDict(frozen=True)

    document_id: DocumentId


class Document(BaseModel):
    """A document as it is stored."""

    model_config = ConfigDict(frozen=True)

    document_id: str
    source: str
    language: str
    chunks: int
    # when the newest of its chunks was written
    changed_at: datetime


class DocumentKept(BaseModel):
    """What became of a document that was sent."""

    model_config = ConfigDict(frozen=True)

    # `kept_out`: memory is switched off
    outcome: Literal["new", "replaced", "unchanged", "kept_out"]
    # all that it has now
    chunks: int
    # of them written now; the others stood as they are
    written: int


class Passage(BaseModel):
    """A chunk of a document, cited as `Doc <document_id>/Chunk <chunk_index>`."""

    model_config = ConfigDict(frozen=True)

    chunk_index: int
    content: str
