"""The kinds of backfills: the tables each reads, when a row lacks derived data, and how that is made again.

Credentials are masked in what is already stored; what was derived from it is made again, as after an edit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from sqlalchemy import Connection, Row

from pipeline.erasure import derived, edits
from pipeline.ingest import session_ranges
from pipeline.ingest.sessionize import SessionPolicy
from pipeline.memories import documents
from pipeline.platforms import identity
from pipeline.recall import query_log
from pipeline.store import vectors
from pipeline.store.chats import chats
from pipeline.store.erasure import suppression
from pipeline.store.jobs import backfill_rows, jobs
from pipeline.store.jobs.backfill_rows import TEXTS
from pipeline.store.jobs.jobs import NewJob
from pipeline.store.memories import entity_graph, memory_rows
from pipeline.store.memories.memory_rows import Owner
from pipeline.store.messages import edits as messages
from pipeline.store.operations import counters
from pipeline.store.sessions import session_rows
from pipeline.text import truncate
from pipeline.text.duplicates import fingerprint
from pipeline.text.tokens import estimate as estimate_tokens
from schemas.backfills import Backfill
from schemas.errors import InvalidInput
from schemas.facts import RULES
from schemas.masking import masked, masked_json
from schemas.messages import MAX_CONTENT_BYTES
from schemas.sessions import EXTRACTIVE
from schemas.settings import Settings


def _needs_mask(texts: Any) -> bool:
    return bool(masked_json(texts) != texts)


def _mask(
    connection: Connection, tenant_id: str, key: str, chat_id: str | None, policy: SessionPolicy
) -> None:
    """Mask the texts of one row, by the kind and the id in `key` (see `TEXTS`), in the caller's transaction."""
    kind, _, position = key.partition(":")
    suppression.lock(connection, tenant_id, chat_id)
    # locked before its messages and sessions, as by everything that changes them
    chat = None if chat_id is None else chats.lock_exclusively(connection, chat_id)
    row = backfill_rows.lock_texts(connection, kind, position)
    if row is None or not _needs_mask(row.texts):
        return
    counters.add(connection, tenant_id, {"texts_masked": 1})
    new = masked_json(row.texts)
    if kind == "message" and chat is not None:
        _mask_message(connection, tenant_id, chat, row, new, policy)
    elif kind == "memory":
        _mask_memory(connection, tenant_id, row, new)
    else:
        backfill_rows.replace_texts(connection, kind, position, new)
    if kind == "session":
        vectors.drop_sessions(connection, [row.id])
        jobs.enqueue(connection, tenant_id, "embed", [key], lane=row.chat_id)


def _mask_message(
    connection: Connection,
    tenant_id: str,
    chat: chats.Chat,
    row: Row[Any],
    new: list[Any],
    policy: SessionPolicy,
) -> None:
    before = messages.find(connection, chat.chat_id, row.external_id)
    new[0], _ = truncate.within_bytes(new[0], MAX_CONTENT_BYTES)
    more: dict[str, Any] = {"token_count": estimate_tokens(new[0]), "revision": row.revision + 1}
    if identity.is_hash(row.external_id) and new[0] != row.content:
        more["external_id"] = identity.keyed(row.external_id, suppression.ensure_key(connection, tenant_id))
    backfill_rows.replace_texts(connection, "message", str(row.id), new, **more)
    after = messages.find(connection, chat.chat_id, more.get("external_id", row.external_id))
    if before is not None and after is not None and new[0] != row.content:
        measured = edits.Measured(new[0], after.token_count, after.lexemes)
        edits.redo(connection, tenant_id, chat, before, measured, policy)


def _mask_memory(connection: Connection, tenant_id: str, row: Row[Any], new: list[Any]) -> None:
    content, metadata = _masked_content(row, new)
    if row.document_id is not None:
        digest = documents.digest(row.chunk_index, content)
    else:
        digest = fingerprint(content, row.learned_in)
        owner = Owner(row.scope, row.session_id, row.user_id, row.agent_id)
        if memory_rows.twin(connection, row.id, owner, digest) is not None:
            # two that differed in what is masked
            digest = derived.hash_of_its_own(row.id, content)
    values = [content, metadata, *new[2:]]
    backfill_rows.replace_texts(connection, "memory", str(row.id), values, content_hash=f"\\x{digest.hex()}")
    memory_rows.drop_vectors(connection, row.id)
    if row.document_id is None:
        entity_graph.drop(connection, row.id)
    derived.remove_answers(connection, tenant_id, [UUID(str(row.id))])
    jobs.enqueue(connection, tenant_id, "embed", [f"memory:{row.id}"], lane=row.learned_in or "")


def _masked_content(row: Row[Any], new: list[Any]) -> tuple[str, Any]:
    """Return a memory's masked words and metadata, which say where the question of a remembered answer ends."""
    content, metadata = new[0], new[1]
    if row.type == "qa_turn" and "question_chars" in metadata:
        end = metadata["question_chars"]
        question = masked(row.content[:end])
        content, metadata = question + masked(row.content[end:]), metadata | {"question_chars": len(question)}
    return truncate.within_bytes(content, MAX_CONTENT_BYTES)[0], metadata


Rows = Mapping[str, str | None]
"""The chats of rows, by job key."""


@dataclass(frozen=True, kw_only=True)
class Current:
    """The rules and versions that jobs use now."""

    rules: SessionPolicy
    summary_version: int
    min_messages: int
    # if a language model: its summaries replace extractive ones
    summary_model: str = EXTRACTIVE
    # chats that it summarizes; empty: all
    summary_chats: frozenset[str] = frozenset()
    # whether it summarizes weeks, too
    rolls_up: bool = False
    # if a language model: its facts replace those of the rules, in the same chats
    learning_model: str = RULES
    # whether credentials are kept as they were written
    keeps_secrets: bool = False
    # the setting that keeps a kind of backfill waiting, as it is off
    switched_off: Callable[[str], str | None] = lambda _: None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the rules and versions of the settings."""
        return cls(
            rules=SessionPolicy.of(settings),
            summary_version=settings.session_summary_version,
            min_messages=settings.session_min_messages,
            summary_model=settings.session_summary_model,
            summary_chats=settings.summary_canaries(),
            rolls_up=settings.rolls_up(),
            learning_model=settings.learning_model(),
            keeps_secrets=settings.secrets == "keep",
            switched_off=settings.switched_off,
        )


@dataclass(frozen=True, kw_only=True)
class BackfillKind:
    """A kind of backfill: what rows lack, and what makes that again, a job for each row or the window itself."""

    # the tables that it reads in turn: see `pipeline.store.jobs.backfill_rows.SOURCES`
    sources: tuple[str, ...]
    # the kind of jobs that its windows enqueue
    follows: str
    # daily counters of the rows made and of the seconds that took
    measured: tuple[str, str] | None = None
    # whether every row must have its derived data at the end, or was given up
    verified: bool = False
    # whether only the texts of a row tell what is to be done, so that counting that reads all of them
    reads_texts: bool = False
    # marks sessions as outdated so that they are done again; None: rows need no mark
    outdate: Callable[[Connection, list[int]], None] | None = None
    # parameters of its sources' statements besides the filter; raises `InvalidInput`
    parameters: Callable[[Connection, Current], dict[str, Any]] = lambda _connection, _current: {}
    # whether a row of its sources lacks what it should have
    is_missing: Callable[[Row[Any]], bool] = lambda row: bool(row.missing)
    # what a window does with the tenant, key, chat and rules of a row, one at a time, and leaves no jobs to wait for
    at_once: Callable[[Connection, str, str, str | None, SessionPolicy], object] | None = None

    def redo(
        self, connection: Connection, tenant: str, backfill: Backfill, rows: Rows, rules: SessionPolicy
    ) -> None:
        """Do these rows, or enqueue jobs for their keys, each with its chat."""
        if self.at_once is not None:
            for key, chat in rows.items():
                self.at_once(connection, tenant, key, chat, rules)
            return
        if self.outdate is not None and not backfill.request.missing_only:
            self.outdate(connection, [int(key.removeprefix("session:")) for key in rows])
        trace_id = f"backfill:{backfill.id}"
        new_jobs = (
            NewJob(kind=self.follows, key=key, lane=chat or "", priority=jobs.LATER, trace_id=trace_id)
            for key, chat in rows.items()
        )
        jobs.enqueue_all(connection, tenant, new_jobs)


def _embed_parameters(connection: Connection, _current: Current) -> dict[str, Any]:
    if not vectors.exist(connection):
        raise InvalidInput("this Postgres has no pgvector, so there is nothing to embed into", field="kind")
    return {"spaces": [space.id for space in vectors.written_spaces(connection)]}


def _rollup_parameters(_connection: Connection, current: Current) -> dict[str, Any]:
    if not current.rolls_up:
        raise InvalidInput(
            "weeks are summarized with BACKSCROLL_ROLLUPS_ENABLED and a language model only", field="kind"
        )
    return {"model_chats": sorted(current.summary_chats)}


def _secrets_parameters(_connection: Connection, current: Current) -> dict[str, Any]:
    if current.keeps_secrets:
        raise InvalidInput("BACKSCROLL_SECRETS=keep: nothing is masked", field="kind")
    return {}


KINDS: dict[str, BackfillKind] = {
    "embed": BackfillKind(
        sources=("embed_sessions", "embed_messages", "embed_memories"),
        follows="embed",
        measured=("embeddings_made", "embedding_seconds"),
        verified=True,
        parameters=_embed_parameters,
    ),
    "summarize": BackfillKind(
        sources=("summarize",),
        follows="summarize",
        measured=("session_summaries_created", "session_summary_seconds"),
        outdate=session_rows.outdate_summaries,
        parameters=lambda _, current: {
            "version": current.summary_version,
            "min_messages": current.min_messages,
            "by_model": current.summary_model != EXTRACTIVE,
            "model_chats": sorted(current.summary_chats),
        },
    ),
    "rollup": BackfillKind(sources=("rollup",), follows="rollup", parameters=_rollup_parameters),
    "extract": BackfillKind(
        sources=("extract",),
        follows="extract",
        measured=("sessions_read_for_facts", "fact_seconds"),
        outdate=session_rows.outdate_facts,
        parameters=lambda _, current: {
            "by_model": current.learning_model != RULES,
            "model_chats": sorted(current.summary_chats),
        },
    ),
    "sessionize": BackfillKind(
        sources=("sessionize",),
        follows="summarize",
        at_once=lambda connection, tenant, chat_id, _chat, rules: session_ranges.sessionize_anew(
            connection, tenant, chat_id, rules
        ),
    ),
    "answers": BackfillKind(
        sources=("answers",),
        follows="embed",
        at_once=lambda connection, tenant, context_id, _chat, _rules: query_log.remember_reported(
            connection, tenant, context_id
        ),
    ),
    "secrets": BackfillKind(
        sources=tuple(f"secrets_{kind}" for kind in TEXTS),
        follows="summarize",
        reads_texts=True,
        parameters=_secrets_parameters,
        is_missing=lambda row: _needs_mask(row.texts),
        at_once=_mask,
    ),
}
