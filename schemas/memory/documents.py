"""Documents of the organization and of users: texts cut into chunks, retrieved by question and cited by id."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from schemas.base import Closed, Frozen, at_most_bytes
from schemas.languages import DEFAULT_LANGUAGE
from schemas.messages import NOT_BLANK, Id, IdOrEmpty, Language, cleaned

MAX_DOCUMENT_BYTES = 1024 * 1024
"""The chapters of a longer text make better documents."""
PAGE = 100
MAX_PAGE = 500


class DocumentIn(Closed):
    """A document to store: the body of `POST /v1/documents`."""

    v: Literal[1] = 1
    document_id: Id
    """The id by which the document is cited and replaced."""
    content: Annotated[
        str, BeforeValidator(cleaned), NOT_BLANK, at_most_bytes(MAX_DOCUMENT_BYTES, ": divide it")
    ]
    """Plain text or Markdown."""
    source: IdOrEmpty = ""
    """The origin, such as a path or a URL."""
    language: Language = DEFAULT_LANGUAGE
    """The language for keyword search."""
    user_id: Id | None = None
    """The user whose document it is, for whom alone it is shown, in direct chats and threads where nobody else is.
    Null: the whole organization's."""


class DocumentOwner(Closed):
    """Whose document is meant: the parameter of `GET` and `DELETE /v1/documents/{document_id}`."""

    user_id: Id | None = None
    """The user whose document it is, by any of their ids. Null: the organization's."""


class DocumentFilter(DocumentOwner):
    """A page of documents: the parameters of `GET /v1/documents`."""

    after: Id | None = None
    """The last `document_id` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE


class ListedDocument(Frozen):
    """A stored document."""

    document_id: str
    user_id: str | None
    """Null: it is the organization's."""
    source: str
    language: str
    chunks: int
    changed_at: datetime
    """When the newest chunk was written."""


class DocumentKept(Frozen):
    """The result of storing a document."""

    outcome: Literal["new", "replaced", "unchanged", "kept_out"]
    """`kept_out`: its user is not to be remembered."""
    chunks: int
    """The number of its chunks now."""
    written: int
    """The number of chunks written; the others were there already."""


class Passage(Frozen):
    """A chunk of a document, cited as `Doc <document_id>/Chunk <chunk_index>`."""

    chunk_index: int
    content: str
