"""Compare two embedding spaces on past questions: do they find the same messages, and those that answers used?"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from time import monotonic

from sqlalchemy import Connection

from pipeline.clients.by_space import SpaceEmbedders
from pipeline.store.chats import chats
from pipeline.store.connections.database import Database
from pipeline.store.search import vector_search
from pipeline.store.search.filters import Scope
from pipeline.store.vectors import spaces as store
from schemas.errors import NotFound
from schemas.vectors import EmbeddingSpace, Vector


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A question in a chat, or a message that stands in for one."""

    chat_id: str
    text: str
    # whether it is from the query log, not a message
    is_question: bool
    # the messages that the bot says its answer used
    used: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class SpaceFigures:
    """The figures of one space."""

    space: str
    # share of the messages used by answers that are among the `nearest`; None: no answer was reported
    recall: float | None
    # milliseconds to embed a question
    embed_ms: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How similar the results of two spaces are."""

    # all samples, and how many of them are questions, not messages
    samples: int
    questions: int
    # messages compared for each sample
    nearest: int
    # the share of the nearest messages that are in both, and of samples with the same nearest one
    overlap: float
    same_first: float
    spaces: tuple[SpaceFigures, SpaceFigures]


def samples(connection: Connection, limit: int) -> list[Sample]:
    """Return the tenant's latest questions, those with reported answers first, filled up with messages."""
    questions = [
        Sample(chat_id=chat_id, text=text, is_question=True, used=_messages(used))
        for chat_id, text, used in store.questions(connection, limit)
    ]
    messages = store.texts(connection, limit - len(questions)) if len(questions) < limit else []
    return questions + [Sample(chat_id=chat_id, text=text, is_question=False) for chat_id, text in messages]


def compare(
    database: Database,
    tenant_id: str,
    pair: tuple[EmbeddingSpace, EmbeddingSpace],
    embedders: SpaceEmbedders,
    *,
    limit: int,
    nearest: int,
) -> Comparison:
    """Search for the same samples in both spaces; models are called outside any transaction.

    Raises `NotFound` if there is nothing to ask, `SettingsError` and `ProviderUnavailable` if a model cannot be used.
    """
    with database.tenant(tenant_id) as connection:
        chosen = samples(connection, limit)
    if not chosen:
        raise NotFound("there are no questions and no messages to compare the spaces on")
    results: list[list[list[int]]] = [[], []]
    seconds = [0.0, 0.0]
    for sample in chosen:
        vectors = list[Vector]()
        for place, space in enumerate(pair):
            embedder = embedders.of(space)
            began = monotonic()
            vectors.append(embedder.embed_query(sample.text))
            seconds[place] += monotonic() - began
        with database.tenant(tenant_id) as connection:
            for place, (space, vector) in enumerate(zip(pair, vectors, strict=True)):
                results[place].append(_nearest(connection, sample, space, vector, nearest))
    both = list(zip(*results, strict=True))
    overlaps = [len({*one} & {*other}) / max(len(one), len(other)) for one, other in both if one or other]
    figures = [
        SpaceFigures(
            space=space.name,
            recall=_recall(chosen, results[place]),
            embed_ms=1000 * seconds[place] / len(chosen),
        )
        for place, space in enumerate(pair)
    ]
    return Comparison(
        samples=len(chosen),
        questions=sum(sample.is_question for sample in chosen),
        nearest=nearest,
        overlap=fmean(overlaps) if overlaps else 0.0,
        same_first=fmean(one[:1] == other[:1] for one, other in both),
        spaces=(figures[0], figures[1]),
    )


def _messages(used: Sequence[str]) -> frozenset[int]:
    """Return the messages among the items that an answer used.

    >>> _messages(["message:7", "session:8", "message:x"])
    frozenset({7})
    """
    named = (item.partition(":") for item in used)
    return frozenset(int(number) for kind, _, number in named if kind == "message" and number.isdecimal())


def _nearest(
    connection: Connection, sample: Sample, space: EmbeddingSpace, vector: Vector, limit: int
) -> list[int]:
    chat = chats.get_current(connection, sample.chat_id)
    if chat is None:
        return []
    scope = Scope(chat_id=chat.chat_id, language=chat.language)
    hits = vector_search.nearest(connection, scope, space, vector, messages=chat.message_count, limit=limit)
    return list(hits.cosines)


def _recall(samples: Sequence[Sample], results: Sequence[Sequence[int]]) -> float | None:
    used = [(sample.used, ids) for sample, ids in zip(samples, results, strict=True) if sample.used]
    return fmean(len(expected & {*ids}) / len(expected) for expected, ids in used) if used else None
