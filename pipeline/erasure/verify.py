"""Keep a sample of what is forgotten in memory, to verify afterwards that it is gone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row

from pipeline.store.erasure import derived as store
from schemas.people.forgetting import Receipt, Subject

SAMPLE = 20
SAMPLE_OF_A_BATCH = 2
MIN_CHARS = 20
"""Shorter texts are common: finding one again proves nothing."""


@dataclass(kw_only=True)
class DeletedSample:
    """A sample of what was deleted in one turn."""

    texts: list[str] = field(default_factory=list)
    vectors: list[Row[Any]] = field(default_factory=list)

    def keep(self, rows: Sequence[Row[Any]]) -> None:
        """Keep rows of `longest`, once their messages are gone."""
        for row in rows:
            if len(row.content) >= MIN_CHARS and len(self.texts) < SAMPLE:
                self.texts.append(row.content)
                if row.embedding is not None:
                    self.vectors.append(row)

    def found_again(self, connection: Connection, subject: Subject, receipt: Receipt) -> dict[str, int]:
        """Count how often deleted data is still found, for the receipt; somebody else may quote a text."""
        # a chat may contain the same text twice, with one of the messages forgotten
        vectors = [] if subject.kind == "message" else self.vectors
        return {
            "looked_for": len(self.texts),
            "found_again_texts": sum(store.count_text(connection, content) for content in self.texts),
            "found_again_vectors": sum(
                store.count_vector(
                    connection,
                    row.space_id,
                    row.size,
                    row.embedding,
                    chat_id=subject.chat_id,
                    until=receipt.until,
                )
                for row in vectors
            ),
        }
