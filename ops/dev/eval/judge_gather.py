"""Gather what the judge of relevance is fitted on: questions to chats and to memories, as they are ranked."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from ops.dev import shipped
from ops.dev.eval import relevance_sample, samples
from ops.dev.eval.asking import asked_as_message
from ops.dev.eval.judge_fit import Asked, How, Kind, Pool, fitted
from ops.dev.eval.relevance import HOWS, is_text_of, remember
from ops.dev.eval.relevance_sample import RelevanceSample
from ops.dev.eval.samples import UNANSWERABLE, SampleChat, SampleQuestion
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.recall import refine, relevance
from pipeline.recall.gather import Ranked, gather_ranked
from pipeline.recall.rank.rank import Scored, ranking_of
from pipeline.recall.relevance import By
from pipeline.recall.request import Request, Stopwatch, for_context
from pipeline.text.excerpt import Wanted
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from schemas.settings import Settings

FITTED = Path(relevance.__file__).with_name("fitted.toml")
HASHED = "deterministic"
"""The embedder of hashed words, for which questions and texts are judged by words alone."""


def tables(settings: Settings, real: Path | None, say: Say) -> dict[str, dict[str, float]]:
    """Fit the judge on the chats of the part `fit`, and on real talk in a folder; returns its tables by name."""
    configured = _gathered(settings, real, say)
    hashed = _gathered(settings.model_copy(update={"embedding_provider": HASHED}), real, say)
    by_what: dict[By, tuple[Sequence[Asked], Sequence[Pool]]] = {
        "both": configured,
        "words": hashed,
        "meaning": configured,
    }
    return {
        f"{judged}.{by}": table
        for by, (asked, told) in by_what.items()
        for judged, table in fitted(asked, told, by).items()
    }


def written(settings: Settings, real: Path | None, say: Say) -> dict[str, dict[str, float]]:
    """Fit the judge, write its tables where it reads them, and return them."""
    found = tables(settings, real, say)
    parts = [
        "# The weights of the judge of relevance, written by `backscroll dev fit --judge`"
        f"{' --real DIR' if real else ''} on {date.today()}",  # noqa: DTZ011 - for people
        f"# with the embedding model {settings.embedding_model or settings.embedding_provider or 'by default'}.",
    ]
    for name, table in sorted(found.items()):
        parts += ["", f"[{name}]", *(f"{key} = {value}" for key, value in table.items())]
    FITTED.write_text("\n".join([*parts, ""]), "utf-8")
    return found


def real_chats(folder: Path) -> Iterator[SampleChat]:
    """Read real talk: `chat`, `messages`, and `questions` with their evidence."""
    for path in sorted(folder.glob("*.json")):
        read: dict[str, Any] = json.loads(path.read_text("utf-8"))
        yield SampleChat(
            name=path.stem,
            chat=ChatIn.model_validate(read["chat"]),
            messages=[MessageIn.model_validate(message) for message in read["messages"]],
            cases=[
                SampleQuestion(
                    question=each["question"],
                    kind=each["kind"],
                    evidence=each["evidence"],
                    tokens=(),
                    unexpected=(),
                    answer="",
                    asked_at=each.get("asked_at"),
                )
                for each in read["questions"]
            ],
        )


def _gathered(settings: Settings, real: Path | None, say: Say) -> tuple[list[Asked], list[Pool]]:
    asked: list[Asked] = []
    told: list[Pool] = []
    sample = relevance_sample.read("fit")
    with shipped.temporary(settings) as backscroll:
        for chat in samples.chosen("fit"):
            backscroll.fill(chat.chat, chat.messages, say)
            # before it is asked: that nothing of them answers a question to the chat is learned as well
            remember(backscroll, chat, [each for each in sample.told if each.chat == chat.name])
            for question, pools in _asked(backscroll, "written", chat, sample, say):
                asked.append(question)
                told += pools
            told += _told(backscroll, chat, sample, say)
        for chat in real_chats(real) if real else ():
            backscroll.fill(chat.chat, chat.messages, say)
            source = chat.name.partition("_")[0]
            asked += [question for question, _ in _asked(backscroll, source, chat, sample, say)]
    return asked, told


def _asked(
    backscroll: Shipped, source: str, chat: SampleChat, sample: RelevanceSample, say: Say
) -> Iterator[tuple[Asked, list[Pool]]]:
    """Ask a chat what it knows, the same without the evidence, and what nobody there ever said.

    With each question come the memories and passages that were found for it, none of which answers it.
    """
    absent = [each.question for each in sample.absent.get(chat.name, ())]
    absent += [case.question for case in chat.cases if case.kind == UNANSWERABLE or not case.evidence]
    for number, case in enumerate(chat.cases, start=1):
        say(f"{chat.name}: question {number} of {len(chat.cases)}")
        if not case.evidence:
            continue
        request, found = _found(backscroll, chat, case.question, case)
        if found.retrieved is None or not request.lexemes:
            continue
        rest = [c for c in found.retrieved.candidates if c.message.external_id not in case.evidence]
        without = ranking_of(request, replace(found.retrieved, candidates=rest)).hits
        yield (
            _as_asked(source, chat, "answerable", found.ranked, found),
            _pools(chat, "other", request, found),
        )
        yield _as_asked(source, chat, "removed", without, found), []
    for question in absent:
        request, found = _found(backscroll, chat, question)
        if found.retrieved is not None and request.lexemes:
            yield (
                _as_asked(source, chat, "absent", found.ranked, found),
                _pools(chat, "other", request, found),
            )


def _as_asked(
    source: str,
    chat: SampleChat,
    kind: Kind,
    ranked: Sequence[Scored],
    found: Ranked,
) -> Asked:
    if found.retrieved is None:
        raise RuntimeError("nothing was searched")
    return Asked(
        source=source,
        chat=chat.name,
        kind=kind,
        ranked=[hit for hit in ranked if not hit.candidate.noise],
        statistics=found.retrieved.statistics,
    )


def _found(
    backscroll: Shipped, chat: SampleChat, question: str, case: SampleQuestion | None = None
) -> tuple[Request, Ranked]:
    """Find and rank as a context does, without recent talk."""
    database, tenant = backscroll.database, backscroll.tenant
    query = ContextQuery(
        chat_id=chat.chat.chat_id,
        query=question,
        user_id=asked_as_message(chat.chat, chat.messages, question).sender_id,
        include_history=False,
        as_of=case.asked_at if case else None,
    )
    with database.tenant(tenant) as connection:
        request = for_context(connection, query, backscroll.settings)
    request = refine.embed(database, tenant, request, backscroll.resources.embedder, Stopwatch())
    return request, gather_ranked(database, tenant, request, Stopwatch())


def _told(backscroll: Shipped, chat: SampleChat, sample: RelevanceSample, say: Say) -> Iterator[Pool]:
    """Ask for memories and passages: literally, in other words, and for something near."""
    for each in (each for each in sample.told if each.chat == chat.name):
        say(f"{chat.name}: {each.type}")
        for how in HOWS:
            request, found = _found(backscroll, chat, getattr(each, how))
            yield from _pools(chat, how, request, found, None if how == "shared" else each)


def _pools(
    chat: SampleChat, how: How, request: Request, found: Ranked, right: relevance_sample.Told | None = None
) -> list[Pool]:
    """Return the memories and the passages that were found for a question, and which of them answers it."""
    pools = [[m for m in found.memories if (m.type == "document") is kind] for kind in (True, False)]
    return [
        Pool(
            chat=chat.name,
            how=how,
            wanted=Wanted.of(request.question.content, request.chat.language),
            texts=[memory.content for memory in pool],
            cosines=[memory.cosine for memory in pool],
            named=[memory.is_named for memory in pool],
            right=[right is not None and is_text_of(memory.content, right) for memory in pool],
        )
        for pool in pools
        if pool
    ]
