"""The evaluation over chats of many kinds: fill, put each question to the bot, ask, and count beside plain search."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources.abc import Traversable
from typing import Any, Literal

from sqlalchemy import text

from ops.dev import shipped
from ops.dev.eval import chat_measures, precision, samples
from ops.dev.eval.baselines import PlainBm25, PlainVectors, plain_context, ranked, spread
from ops.dev.eval.chat_measures import BUDGETS, BY_WORDS, OURS, Answered, QuestionFigures, WayResult, measured
from ops.dev.eval.placed import messages_of_memories, placed_messages
from ops.dev.eval.precision import ContextFigures
from ops.dev.eval.question_messages import asked_as_message
from ops.dev.eval.samples import ChatFacts, Part, SampleChat, SampleQuestion
from ops.dev.observe import Say
from ops.dev.shipped import Shipped
from pipeline.recall.ask.profiles import profile_named
from schemas.messages import MessageIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings

# Of a context, what was recalled: the question and the standing orders are not.
_NOT_RECALLED = frozenset({"guardrails", "question"})
# Postgres has no configuration for every language of a chat; `german+english` is one of two.
_CONFIGURATION = text("""
    SELECT coalesce((SELECT cfgname FROM pg_ts_config WHERE cfgname = split_part(:language, '+', 1) LIMIT 1), 'simple')
""")
_WORDS = text("""
    SELECT t.n - 1, word.lexeme, cardinality(word.positions)
    FROM unnest(CAST(:texts AS text[])) WITH ORDINALITY t(content, n)
    CROSS JOIN LATERAL unnest(to_tsvector(CAST(:configuration AS regconfig), t.content)) word
""")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to evaluate."""

    part: Part | Literal["all"] = "all"
    # of the catalogue those with these names; none: all of the part
    only: tuple[str, ...] = ()
    # questions in another language than their chat, of those that have such
    foreign: bool = False
    # nothing is embedded, neither messages nor questions
    words_only: bool = False
    # of the contexts, and what is changed of its parameters
    profile: str = "balanced"
    parameters: ContextParameters = field(default_factory=ContextParameters)
    folder: Traversable = samples.CHATS


def chats(settings: Settings, options: Options, progress: Say) -> dict[str, Any]:
    """Compute the tables of `chat_measures.tables` in one fresh database; `details` lists each question.

    Raises `InvalidInput` for an unknown chat or profile.
    """
    profile_named(options.profile)
    known = samples.catalogue(options.folder)
    chosen = samples.chosen(known, options.part, options.only)
    if options.foreign:
        chosen = {name: f for name, f in chosen.items() if samples.has_foreign(name, options.folder)}
    translated = {name: f.translation_of for name, f in chosen.items() if f.translation_of in chosen}
    also_by_words = {*translated, *translated.values()}
    answered: list[Answered] = []
    with shipped.temporary(settings) as backscroll:
        for name, facts in chosen.items():
            sample = samples.read_chat(name, options.folder, foreign=options.foreign)
            ways = (
                [BY_WORDS] if options.words_only else [OURS, *([BY_WORDS] if name in also_by_words else [])]
            )
            answered += _chat(backscroll, sample, facts, ways, options, progress)
    found = chat_measures.tables(answered, {a: b for a, b in translated.items() if b})
    return found | {
        "chats": list(chosen),
        "profile": options.profile,
        "parameters": options.parameters.model_dump(exclude_none=True),
        "details": [asdict(one) for one in answered],
    }


def _chat(
    backscroll: Shipped,
    sample: SampleChat,
    facts: ChatFacts,
    ways: Sequence[str],
    options: Options,
    progress: Say,
) -> list[Answered]:
    backscroll.fill(sample.chat, sample.messages, progress, derived=_derived(ways))
    plain = PlainSearch(backscroll, sample, words_only=OURS not in ways)
    answered = []
    for number, case in enumerate(sample.cases, start=1):
        progress(f"{sample.name}: question {number} of {len(sample.cases)}")
        ours, shown = _asked(backscroll, sample, case, ways, options)
        answered.append(
            Answered(
                chat=sample.name,
                chat_kind=facts.kind,
                language=facts.language,
                kind=case.kind,
                question=case.question,
                by_way=ours | plain.asked(case),
                precision=shown,
            )
        )
    return answered


def _derived(ways: Sequence[str]) -> Sequence[str]:
    """Return the kinds of jobs that these ways need."""
    return [kind for kind in shipped.DERIVED if OURS in ways or kind != "embed"]


def _asked(
    backscroll: Shipped,
    sample: SampleChat,
    case: SampleQuestion,
    ways: Sequence[str],
    options: Options,
) -> tuple[dict[str, QuestionFigures], dict[str, dict[int, ContextFigures]]]:
    """Put a question to the bot as a message, ask for its contexts, and measure what they found and what they show."""
    message = asked_as_message(sample.chat, sample.messages, case.question, case.asked_at)
    with backscroll.put(sample.chat, message, derived=_derived(ways)):
        placed = placed_messages(backscroll, sample.chat.chat_id)
        results = {
            way: contexts(
                backscroll,
                sample,
                case,
                message,
                way,
                profile=options.profile,
                parameters=options.parameters,
            )
            for way in ways
        }
    session_of = {one.external_id: one.session for one in placed.values()}
    shown = [context for result in results.values() for context in result.contexts.values()]
    resting = messages_of_memories(backscroll, shown)
    return (
        {way: measured(case, session_of, result) for way, result in results.items()},
        {
            way: {
                budget: precision.figures(context, case.evidence, placed, resting)
                for budget, context in result.contexts.items()
            }
            for way, result in results.items()
        },
    )


def contexts(
    backscroll: Shipped,
    sample: SampleChat,
    case: SampleQuestion,
    message: MessageIn,
    way: str,
    *,
    profile: str,
    parameters: ContextParameters,
) -> WayResult:
    """Ask for the contexts of a question that was put as this message, and return what they found."""
    by_budget = {
        budget: backscroll.ask(
            sample.chat.chat_id,
            case.question,
            budget,
            words_only=way == BY_WORDS,
            user_id=message.sender_id,
            include_history=True,
            profile=profile,
            parameters=parameters,
        )
        for budget in BUDGETS
    }
    explain = by_budget[max(BUDGETS)].explain
    if explain is None:
        raise RuntimeError("a context came without its explanation")
    return WayResult(
        ranked=[hit.external_id for hit in explain.messages if hit.external_id is not None],
        sessions=[int(hit.id) for hit in explain.sessions],
        top_score=explain.messages[0].score if explain.messages else 0.0,
        shown={
            budget: "\n".join(block.text for block in context.blocks if block.kind not in _NOT_RECALLED)
            for budget, context in by_budget.items()
        },
        contexts=by_budget,
    )


class PlainSearch:
    """A chat searched plainly: by words, by vectors, and by the sum of both, each spread from 0 to 1."""

    def __init__(self, backscroll: Shipped, sample: SampleChat, *, words_only: bool) -> None:
        self._messages = sample.messages
        self._session_of = backscroll.sessions_of(sample.chat.chat_id)
        texts = [message.content for message in sample.messages]
        self._bm25 = PlainBm25(_words_of(backscroll, sample.chat.language or "english"), texts)
        self._vectors = None if words_only else PlainVectors(backscroll.resources.embedder, texts)

    def asked(self, case: SampleQuestion) -> dict[str, QuestionFigures]:
        """Measure each way."""
        return {way: measured(case, self._session_of, result) for way, result in self.results(case).items()}

    def results(self, case: SampleQuestion) -> dict[str, WayResult]:
        """Rank all messages for a question by each way."""
        bm25 = self._bm25.scores(case.question)
        # a message without a word of the question is not found by words
        found = {"bm25": (bm25, 0.0)}
        if self._vectors is not None:
            cosines = self._vectors.scores(case.question)
            found |= {"vectors": (cosines, -2.0), "sum": (spread(bm25) + spread(cosines), -1.0)}
        return {
            way: self._result(ranked(self._messages, scores, above=least), scores)
            for way, (scores, least) in found.items()
        }

    def _result(self, best: Sequence[MessageIn], scores: Any) -> WayResult:
        ids = [message.external_id for message in best]
        return WayResult(
            ranked=ids,
            sessions=list(dict.fromkeys(self._session_of[each] for each in ids)),
            top_score=float(scores.max(initial=0.0)),
            shown={budget: plain_context(best, budget) for budget in BUDGETS},
        )


def _words_of(backscroll: Shipped, language: str) -> Any:
    """Return what takes texts apart as Postgres does for a language."""

    def words(texts: Sequence[str]) -> list[dict[str, int]]:
        found: list[dict[str, int]] = [{} for _ in texts]
        with backscroll.database.tenant(backscroll.tenant) as connection:
            configuration = connection.scalar(_CONFIGURATION, {"language": language})
            given = {"texts": list(texts), "configuration": configuration}
            for n, lexeme, times in connection.execute(_WORDS, given):
                found[n][lexeme] = times
        return found

    return words
