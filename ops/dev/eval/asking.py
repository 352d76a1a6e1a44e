"""What every evaluation does: fill a chat, put its questions to the bot as messages, ask for contexts, measure.

A plain search beside it is BM25 over Postgres' words, vectors, or the untuned sum of both.

`R@k` and `S@k` are the shares of the evidence among the first k messages, and of its sessions among the first k; `C n`
the share of the answer's pieces in a context of n tokens; `astray n` counts the pieces in it that lead astray, of
`astray of` that there could be.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from statistics import fmean
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from sqlalchemy import text

from ops.dev import shipped
from ops.dev.eval.samples import UNANSWERABLE, SampleChat, SampleQuestion
from ops.dev.figures import Report, Say
from ops.dev.shipped import Shipped
from pipeline.recall.profiles import profile_named
from pipeline.store.search.keyword_search import K1, B, idf
from pipeline.text.tokens import estimate_line
from pipeline.text.truncate import one_line
from schemas.context import Context
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings

BUDGETS = (800, 2000)
TURN_KS = (5, 10, 20)
SESSION_KS = (3, 5, 10)
OURS = "backscroll"
# Blocks that nobody recalled: the question and the standing orders.
NOT_RECALLED = frozenset({"guardrails", "question"})
# Figures whose names begin so are counts, of which sums are shown; all others are shares or sizes.
COUNTS = ("astray", "right", "shown")

Row = Mapping[str, float]
"""Figures of one question, or the means of many."""


@dataclass(frozen=True, kw_only=True)
class WayResult:
    """What one way of searching gave for one question."""

    # external ids, best first
    ranked: Sequence[str]
    # the sessions that speak most for an answer, best first
    sessions: Sequence[int]
    # what a bot would be shown, by budget
    shown: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One question of a chat, and how it went by each way."""

    chat: str
    kind: str
    question: str
    by_way: Mapping[str, Row]
    # what Backscroll's own contexts show, as `precision` counts it
    shown: Row


def measured(case: SampleQuestion, session_of: Mapping[str, int], result: WayResult) -> Row:
    """Measure what a way gave for a question; one without an answer has no shares."""
    wanted = holding(case, session_of)
    pieces, astray = list(map(one_line, case.tokens)), list(map(one_line, case.unexpected))
    row: dict[str, float] = {"astray of": len(astray)}
    if case.evidence:
        evidence = set(case.evidence)
        row |= {f"R@{k}": len(evidence.intersection(result.ranked[:k])) / len(evidence) for k in TURN_KS}
    if wanted:
        row |= {f"S@{k}": len(wanted.intersection(result.sessions[:k])) / len(wanted) for k in SESSION_KS}
    for budget, shown in result.shown.items():
        text = one_line(shown)
        row[f"astray {budget}"] = sum(piece in text for piece in astray)
        if pieces:
            row[f"C {budget}"] = sum(piece in text for piece in pieces) / len(pieces)
    return row


def holding(case: SampleQuestion, session_of: Mapping[str, int]) -> set[int]:
    """Return the sessions that hold evidence."""
    return {session_of[id_] for id_ in case.evidence if id_ in session_of}


def precision(context: Context, sessions: Collection[int]) -> Row:
    """Return what a context shows, and how much of it is right: in `sessions`, those that hold evidence.

    `used`: tokens of the whole context. `best 3`: of the messages found, those in a session that holds evidence. `fell
    back`: whether a profile that narrows to sessions searched the whole chat, as none fits.
    """
    best = context.explain.messages[:3] if context.explain else []
    return {
        "used": context.used_tokens,
        "shown best 3": len(best),
        "right best 3": sum(hit.session_id in sessions for hit in best),
        "fell back": context.fell_back,
    }


def recalled_text(context: Context) -> str:
    """Return the text of a context that was recalled, without the question and the standing orders."""
    return "\n".join(block.text for block in context.blocks if block.kind not in NOT_RECALLED)


def means(rows: Sequence[Row]) -> Row:
    """Return the mean of each figure over the rows that have it; counts are summed, and `right X` is of `shown X`."""
    figures: dict[str, float] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        figures[name] = sum(values) if name.startswith(COUNTS) else round(fmean(values), 4)
    for name in [name.removeprefix("shown ") for name in figures if name.startswith("shown ")]:
        if count := figures[f"shown {name}"]:
            figures[name] = round(figures[f"right {name}"] / count, 4)
    return figures


def summed_up(answered: Sequence[Answered]) -> dict[str, Any]:
    """Return what `--json` prints: by way the figures of all questions with an answer, and of those of each chat.

    `shown` is what Backscroll's contexts show, for questions with an answer and without.
    """
    having = [answer for answer in answered if answer.kind != UNANSWERABLE]
    without = [answer.shown for answer in answered if answer.kind == UNANSWERABLE]
    chats: dict[str, list[Answered]] = {answer.chat: [] for answer in answered}
    for answer in having:
        chats[answer.chat].append(answer)
    return {
        "questions": len(having),
        "chats": list(chats),
        "all": _by_way(having),
        "by_chat": {name: {"questions": len(group), **_by_way(group)} for name, group in chats.items()},
        "shown": {"with answer": means([answer.shown for answer in having]), "without": means(without)},
    }


def _by_way(answered: Sequence[Answered]) -> dict[str, Row]:
    ways = answered[0].by_way if answered else ()
    return {way: means([answer.by_way[way] for answer in answered]) for way in ways}


# A question comes so long after the last message.
AFTER = timedelta(minutes=5)
_SESSIONS = text("""
    SELECT m.external_id, s.id FROM conversation_sessions s JOIN messages m
        ON m.tenant_id = s.tenant_id AND m.chat_id = s.chat_id AND m.session_key = s.session_key
        AND m.sent_at BETWEEN s.started_at AND s.ended_at
    WHERE s.chat_id = :chat AND s.status <> 'merged'
""")


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How contexts are asked for."""

    profile: str = "balanced"
    parameters: ContextParameters = field(default_factory=ContextParameters)
    # by whoever put the question, with recent talk, as bots do
    as_bots_do: bool = True
    # plain search is asked beside it
    plain: bool = True


def evaluated(settings: Settings, chats: Iterable[SampleChat], asking: Asking, say: Say) -> Report:
    """Put the questions of chats in one fresh database; `details` lists each question.

    Raises `InvalidInput` for an unknown profile.
    """
    profile_named(asking.profile)
    with shipped.temporary(settings) as backscroll:
        answered = [answer for sample in chats for answer in _answers(backscroll, sample, asking, say)]
    found = {
        "profile": asking.profile,
        "parameters": asking.parameters.model_dump(exclude_none=True),
        **summed_up(answered),
        "details": [asdict(answer) for answer in answered],
    }
    return Report(found=found, only_in_json=["details"])


def asked_as_message(
    chat: ChatIn, messages: Sequence[MessageIn], question: str, at: datetime | None = None
) -> MessageIn:
    """Return a question as the message that puts it to the chat's bot, by somebody of the chat.

    In a group it mentions the bot. Who asks is the one with the most messages whom the question does not name. The
    time is by default `AFTER` the last message.
    """
    counts = Counter((m.sender_id, m.sender_name) for m in messages if m.role == "user")
    by_frequency = [person for person, _ in counts.most_common()]
    folded = question.casefold()
    asker = next((who for who in by_frequency if (who[1] or "").casefold() not in folded), by_frequency[0])
    bot = next((m.sender_name for m in messages if m.role == "assistant" and m.sender_name), "bot")
    return MessageIn(
        # a new one each time: what was deleted is not taken again
        external_id=f"question-{uuid4()}",
        sender_id=asker[0],
        sender_name=asker[1],
        content=f"@{bot} {question}" if chat.kind == "group" else question,
        sent_at=at or messages[-1].sent_at + AFTER,
    )


def _answers(backscroll: Shipped, sample: SampleChat, asking: Asking, say: Say) -> Iterator[Answered]:
    """Bring a chat in, put each of its questions to the bot, and measure what is found and shown."""
    backscroll.fill(sample.chat, sample.messages, say)
    plain = PlainSearch(backscroll, sample, _sessions(backscroll, sample)) if asking.plain else None
    options: dict[str, Any] = {"profile": asking.profile, "parameters": asking.parameters}
    for number, case in enumerate(sample.cases, start=1):
        say(f"{sample.name}: question {number} of {len(sample.cases)}")
        message = asked_as_message(sample.chat, sample.messages, case.question, case.asked_at)
        if asking.as_bots_do:
            options |= {"user_id": message.sender_id, "include_history": True}
        with backscroll.put(sample.chat, message):
            session_of = _sessions(backscroll, sample)
            contexts = {
                budget: backscroll.ask(sample.chat.chat_id, case.question, budget, **options)
                for budget in BUDGETS
            }
        by_way = plain.rows(case) if plain else {}
        shown = {
            f"{name} {budget}": value
            for budget, context in contexts.items()
            for name, value in precision(context, holding(case, session_of)).items()
        }
        yield Answered(
            chat=sample.name,
            kind=case.kind,
            question=case.question,
            by_way={OURS: measured(case, session_of, _result(contexts))} | by_way,
            shown=shown,
        )


def _sessions(backscroll: Shipped, sample: SampleChat) -> dict[str, int]:
    """Return the session of each message of the chat by its external id."""
    with backscroll.database.tenant(backscroll.tenant) as connection:
        return dict(map(tuple, connection.execute(_SESSIONS, {"chat": sample.chat.chat_id})))


def _result(contexts: Mapping[int, Context]) -> WayResult:
    explain = contexts[max(contexts)].explain
    if explain is None:
        raise RuntimeError("a context came without its explanation")
    return WayResult(
        ranked=[hit.external_id for hit in explain.messages if hit.external_id is not None],
        sessions=[int(hit.id) for hit in explain.sessions],
        shown={budget: recalled_text(context) for budget, context in contexts.items()},
    )


Array = npt.NDArray[np.float64]
# Postgres has no configuration for every language of a chat; `german+english` is one of two.
_CONFIGURATION = text("""
    SELECT coalesce((SELECT cfgname FROM pg_ts_config WHERE cfgname = split_part(:language, '+', 1) LIMIT 1), 'simple')
""")
_WORDS = text("""
    SELECT t.n - 1, word.lexeme, cardinality(word.positions)
    FROM unnest(CAST(:texts AS text[])) WITH ORDINALITY t(content, n)
    CROSS JOIN LATERAL unnest(to_tsvector(CAST(:configuration AS regconfig), t.content)) word
""")


class PlainSearch:
    """A chat searched plainly: by words, by vectors, and by the sum of both, each spread from 0 to 1."""

    def __init__(self, backscroll: Shipped, sample: SampleChat, session_of: Mapping[str, int]) -> None:
        self._backscroll, self._messages, self._session_of = backscroll, sample.messages, session_of
        self._embedder = backscroll.resources.embedder
        self._language = sample.chat.language or "english"
        texts = [message.content for message in sample.messages]
        self._words = self._split(texts)
        self._vectors = np.array(self._embedder.embed_documents(texts), dtype=np.float64)

    def rows(self, case: SampleQuestion) -> dict[str, Row]:
        """Rank all messages for a question by each way, and measure it."""
        by_words = bm25(self._words, self._split([case.question])[0])
        cosines = self._vectors @ np.array(self._embedder.embed_query(case.question))
        rankings = {
            # a message without a word of the question is not found by words
            "bm25": ranked(self._messages, by_words, above=0.0),
            "vectors": ranked(self._messages, cosines),
            "sum": ranked(self._messages, spread(by_words) + spread(cosines)),
        }
        return {way: measured(case, self._session_of, self._result(best)) for way, best in rankings.items()}

    def _split(self, texts: Sequence[str]) -> list[dict[str, int]]:
        """Return the words of each text, as Postgres splits its language, with how often each is in it."""
        counts: list[dict[str, int]] = [{} for _ in texts]
        with self._backscroll.database.tenant(self._backscroll.tenant) as connection:
            configuration = connection.scalar(_CONFIGURATION, {"language": self._language})
            parameters = {"texts": list(texts), "configuration": configuration}
            for n, lexeme, times in connection.execute(_WORDS, parameters):
                counts[n][lexeme] = times
        return counts

    def _result(self, best: Sequence[MessageIn]) -> WayResult:
        ids = [message.external_id for message in best]
        return WayResult(
            ranked=ids,
            sessions=list(dict.fromkeys(self._session_of[id_] for id_ in ids)),
            shown={budget: plain_context(best, budget) for budget in BUDGETS},
        )


def bm25(texts: Sequence[Mapping[str, int]], question: Iterable[str]) -> Array:
    """Return the score of each text, given its words and how often each is in it; 0 without a word of the question."""
    lengths = np.array([sum(words.values()) for words in texts], dtype=np.float64)
    norms = K1 * (1 - B + B * lengths / (lengths.mean() or 1.0))
    scores = np.zeros(len(texts))
    for word in question:
        times = np.array([words.get(word, 0) for words in texts], dtype=np.float64)
        having = np.count_nonzero(times)
        scores += idf(len(texts), int(having)) * times * (K1 + 1) / (times + norms)
    return scores


def spread(scores: Array) -> Array:
    """Return scores between 0 for the least and 1 for the best; 0 if all are the same."""
    span = float(np.ptp(scores)) if scores.size else 0.0
    return (scores - scores.min()) / span if span > 0 else np.zeros_like(scores)


def ranked(messages: Sequence[MessageIn], scores: Array, *, above: float = -math.inf) -> list[MessageIn]:
    """Return the messages with a score `above` this, best first, of equal ones the later."""
    scored = [(score, m.sent_at, i) for i, (score, m) in enumerate(zip(scores, messages, strict=True))]
    return [messages[i] for score, _, i in sorted(scored, reverse=True) if score > above]


def plain_context(best: Sequence[MessageIn], budget: int) -> str:
    """Show the best messages with their speakers, a line each, as long as they fit into `budget` tokens."""
    lines = [f"{message.sender_name}: {one_line(message.content)}" for message in best]
    used = accumulate(map(estimate_line, lines))
    return "\n".join(line for line, tokens in zip(lines, used, strict=True) if tokens <= budget)
