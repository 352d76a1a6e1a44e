"""What a context is assembled from, made up: messages with scores, sessions, recent talk."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeline.recall.choose.lines import ChosenLine
from pipeline.recall.find.candidates import Candidate, CandidateSet, Statistics
from pipeline.recall.find.retrieved import RetrievedMemory, RetrievedSession
from pipeline.recall.gather import Ranked
from pipeline.recall.pack.pack import assemble
from pipeline.recall.profiles import PROFILES
from pipeline.recall.question import parse
from pipeline.recall.question.conversation import Questions
from pipeline.recall.rank.rank import Scored
from pipeline.recall.request import QueryTerms, Request
from pipeline.store.chats.chats import Chat
from pipeline.store.memories.memory_candidates import FoundMemory
from pipeline.store.search.chat_snapshot import ChatSnapshot
from pipeline.text.cues import message_cues
from schemas.context import BlockKind, Context
from schemas.payloads import ContextQuery
from schemas.sessions import Message
from tests.text.builders import message

START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)
NOW = datetime(2026, 4, 1, tzinfo=UTC)


def candidate(number: int, text: str = "hm", **fields: Any) -> Candidate:
    """A message of session 1, as many minutes after `START` as its number."""
    speaker = fields.pop("speaker", f"speaker {number}")
    said = {"external_id": str(number), "sent_at": START + timedelta(minutes=number)}
    said |= {name: fields.pop(name) for name in Message._fields if name in fields}
    given: dict[str, Any] = {
        "session": 1,
        "place": number,
        "terms": {},
        "length": 5,
        "cosine": None,
        "cues": message_cues.read_cues(text, "english"),
        "affinity": 0.0,
    }
    return Candidate(message=message(text, speaker, id=number)._replace(**said), **given | fields)


def hit(number: int, text: str, score: float, **fields: Any) -> Scored:
    """A candidate of Ann's with this score, which has to do with the question."""
    parts: Mapping[str, float] = fields.pop("parts", {"words": score})
    found = candidate(number, text, **{"speaker": "Ann", "terms": {"asked": 1}} | fields)
    return Scored(candidate=found, score=score, parts=parts)


def aged(number: int, score: float, *, days: float = 0, text: str = "hm", **fields: object) -> Scored:
    """A candidate of so many days ago, whose score is of words and of meaning."""
    sent_at = NOW - timedelta(days=days)
    parts = {"words": score - 0.25, "meaning": 0.25}
    return Scored(candidate=candidate(number, text, sent_at=sent_at, **fields), score=score, parts=parts)


def recent(number: int, text: str, **fields: Any) -> Message:
    """A message of recent talk, the higher its number the newer."""
    at = NOW - timedelta(days=1) + timedelta(minutes=number - 1000)
    said = message(text, "Ben", id=number)
    return said._replace(**{"external_id": str(number), "sent_at": at} | fields)


def memory(number: int, content: str, score: float, **fields: Any) -> RetrievedMemory:
    """A statement about Ann, known since `START`."""
    unset: dict[str, Any] = dict.fromkeys(each.name for each in dataclass_fields(FoundMemory))
    given = unset | {
        "id": str(number),
        "scope": "user",
        "type": "fact",
        "content": content,
        "about": "Ann",
        "since": START,
        "evidence": (),
    }
    return RetrievedMemory(**given | fields, score=score)


def passage(content: str, document_id: str = "handbook", **fields: Any) -> RetrievedMemory:
    """A passage of a document of the organization that has to do with the question."""
    given = {"scope": "organization", "type": "document", "document_id": document_id, "chunk_index": 0}
    return memory(fields.pop("number", 1), content, 1.0, **(given | {"about": "", "cosine": 0.6} | fields))


def session(number: int, summary: str, score: float, **fields: Any) -> RetrievedSession:
    """A session of an hour, `number` days after the first one."""
    began = START + timedelta(days=number)
    given = {
        "started_at": began,
        "ended_at": began + timedelta(hours=1),
        "participants": [],
        "topics": [],
        "entities": [],
        "session_key": "",
        "message_count": 50,
    } | fields
    return RetrievedSession(id=number, summary=summary, score=score, **given)


def requested(
    question: str,
    *,
    messages: int = 0,
    latest: Sequence[Message] = (),
    language: str = "english",
    time_zone: str = "UTC",
    profile: str = "balanced",
    parameters: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Request:
    """A question to a chat of so many messages, parsed; `fields` are the request's."""
    chat = Chat(
        chat_id="test:talk",
        platform="test",
        kind="group",
        title="Talk",
        time_zone=time_zone,
        language=language,
        message_count=messages,
        lexeme_count=0,
        memory=True,
    )
    snapshot = ChatSnapshot(
        chat=chat,
        people={},
        sessions=0,
        began=START,
        asker=None,
        now=NOW,
        logged=[],
        recent=latest,
        space=None,
        indexed=False,
        size=messages,
        present=None,
        members=[],
        waits=False,
        suppression_key=None,
        _lexemes={},
    )
    read = parse.read(question, [], START, NOW, language)
    given: dict[str, Any] = {
        "question": read,
        "queries": [QueryTerms(content=read.content, lexemes=[])],
        "questions": Questions.of(question, language),
        "parameters": replace(PROFILES[profile], **(parameters or {})),
    }
    return Request(snapshot=snapshot, **given | fields)


def assembled(
    question: str,
    ranked: Sequence[Scored] = (),
    *,
    sessions: Sequence[RetrievedSession] = (),
    overview: Sequence[RetrievedSession] = (),
    memories: Sequence[RetrievedMemory] = (),
    latest: Sequence[Message] = (),
    budget: int = 2000,
    language: str = "english",
    time_zone: str = "UTC",
    **fields: Any,
) -> Context:
    """Assemble a context of these; `fields` are those of a question, and parameters of its profile."""
    asked = {name: value for name, value in fields.items() if name in ContextQuery.model_fields}
    query = ContextQuery.model_validate({"chat_id": "test:talk", "query": question} | asked)
    parameters = {name: value for name, value in fields.items() if name not in asked}
    request = requested(
        question,
        messages=len(ranked),
        latest=latest,
        language=language,
        time_zone=time_zone,
        profile=query.profile,
        parameters=parameters,
    )
    ordered = sorted(ranked, key=lambda each: -each.score)
    frequency = Counter(term for each in ranked for term in each.candidate.terms)
    statistics = Statistics(messages=max(len(ranked), 1), mean_length=5, document_frequency=frequency)
    found = Ranked(
        retrieved=CandidateSet(
            candidates=[each.candidate for each in ordered],
            statistics=statistics,
            arms={},
            vector_search="off",
            rows_compared=0,
            keyword_search="exact",
        ),
        ranked=ordered,
        sessions=sessions,
        overview=overview,
        memories=memories,
        recent=latest,
        judged_by="both" if any(each.cosine is not None for each in memories) else "words",
    )
    return assemble(query, request, found, budget)


def lines(found: Context, kind: str) -> list[str]:
    return [item.text for block in found.blocks if block.kind == kind for item in block.items]


def line(
    text: str, worth: float = 1.0, *, number: int = 0, block: BlockKind = "exchanges", **fields: Any
) -> ChosenLine:
    """A line that is written whole, in the place of its number."""
    place = (number,)
    return ChosenLine(
        block=block,
        kind="message",
        id=str(number),
        reason="",
        worth=worth,
        place=place,
        write=lambda _: text,
        **fields,
    )
