"""Measure whether Backscroll knows when it does not know: what is shown for questions with and without an answer."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any, Literal

from ops.dev import shipped
from ops.dev.eval import samples
from ops.dev.eval.asking import asked_as_message, recalled_text
from ops.dev.eval.samples import UNANSWERABLE, Part, RelevanceSample, SampleChat, SampleQuestion, Told
from ops.dev.figures import Report, Say
from ops.dev.shipped import Shipped
from pipeline.memories import documents, statements
from pipeline.recall.search_modes import search_memories
from pipeline.text.truncate import one_line
from schemas.context import Context
from schemas.memories import DocumentIn, MemoryPayload, MemoryQuery
from schemas.settings import Settings

BUDGET = 2000
FOUND = ("documents", "memories", "rollups", "exchanges", "related")
"""The blocks of what was found."""
HOWS: tuple[Literal["literal", "reworded", "shared"], ...] = ("literal", "reworded", "shared")


@dataclass(frozen=True, kw_only=True)
class ShownAnswer:
    """What was shown for a question of a chat."""

    chat: str
    language: str
    # `answerable`, `foreign` (the same in another language), or where the question without an answer comes from
    kind: str
    question: str
    # of what was found, at `BUDGET`
    tokens: int
    # the share of the answer's pieces that is shown; None: it has none
    pieces: float | None
    evidence: str


def evaluated(settings: Settings, part: Part, say: Say) -> Report:
    """Put questions with and without an answer in one fresh database; `details` lists each."""
    sample = samples.read_relevance_sample(part)
    with shipped.temporary(settings) as backscroll:
        shown, told = list[ShownAnswer](), Counter[str]()
        for chat, facts in samples.catalogue().items():
            if facts.part == part:
                shown += _asked(backscroll, samples.read_chat(chat), facts.language, sample, say)
                told.update(_told(backscroll, chat, [each for each in sample.told if each.chat == chat], say))
    with shipped.temporary(settings) as backscroll:
        searches = _searched(backscroll, sample, say)
    found = {
        "questions": summed_up(shown),
        "by_language": {
            language: summed_up([each for each in shown if each.language == language])
            for language in sorted({each.language for each in shown})
        },
        "memories": {
            f"{kind} {how}": round(told[f"{kind} {how} shown"] / max(told[f"{kind} {how}"], 1), 3)
            for kind in ("memory", "passage")
            for how in HOWS
        },
        "searches": searches,
        "details": [asdict(each) for each in shown],
    }
    return Report(found=found, only_in_json=["details", "by_language"])


def summed_up(shown: Sequence[ShownAnswer]) -> dict[str, dict[str, float]]:
    """Return by kind how many there are, the median of their tokens, and the shares of pieces and of levels."""
    kinds: dict[str, list[ShownAnswer]] = {}
    for each in shown:
        kinds.setdefault(each.kind, []).append(each)
        if each.kind not in {"answerable", "foreign"}:
            kinds.setdefault("absent", []).append(each)
    return {
        kind: {
            "count": len(of_kind),
            "median tokens": median(each.tokens for each in of_kind),
            "mean tokens": round(fmean(each.tokens for each in of_kind)),
            **({"pieces": round(fmean(pieces), 4)} if (pieces := _pieces(of_kind)) else {}),
            **{
                level: round(sum(each.evidence == level for each in of_kind) / len(of_kind), 3)
                for level in ("strong", "weak", "none", "not judged")
            },
        }
        for kind, of_kind in kinds.items()
    }


def _pieces(shown: Iterable[ShownAnswer]) -> list[float]:
    return [each.pieces for each in shown if each.pieces is not None]


def _asked(
    backscroll: Shipped, chat: SampleChat, language: str, sample: RelevanceSample, say: Say
) -> Iterator[ShownAnswer]:
    """Bring a chat in, and ask it what it knows and what it does not."""
    backscroll.fill(chat.chat, chat.messages, say)
    questions = [("unanswerable" if case.kind == UNANSWERABLE else "answerable", case) for case in chat.cases]
    if (samples.CHATS / f"{chat.name}_foreign.json").is_file():
        questions += [("foreign", case) for case in samples.read_chat(chat.name, foreign=True).cases]
    questions += [
        ("written" if each.by == "written" else "of another chat", _without_answer(each.question))
        for each in sample.absent.get(chat.name, ())
    ]
    for number, (kind, case) in enumerate(questions, start=1):
        say(f"{chat.name}: question {number} of {len(questions)}")
        context = _context(backscroll, chat, case.question)
        text = recalled_text(context)
        pieces = [piece in text for piece in map(one_line, case.tokens)]
        yield ShownAnswer(
            chat=chat.name,
            language=language,
            kind=kind,
            question=case.question,
            tokens=_tokens(context),
            pieces=fmean(pieces) if pieces else None,
            evidence=getattr(context, "evidence", None) or "not judged",
        )


def _without_answer(question: str) -> SampleQuestion:
    return SampleQuestion(
        question=question, kind=UNANSWERABLE, evidence=(), tokens=(), unexpected=(), answer=""
    )


def _context(backscroll: Shipped, chat: SampleChat, question: str) -> Context:
    asker = asked_as_message(chat.chat, chat.messages, question).sender_id
    return backscroll.ask(chat.chat.chat_id, question, BUDGET, user_id=asker)


def _tokens(context: Context) -> int:
    return sum(block.tokens for block in context.blocks if block.kind in FOUND)


def remember(backscroll: Shipped, chat: SampleChat, told: Sequence[Told]) -> None:
    """Remember statements and documents in a chat."""
    database, tenant = backscroll.database, backscroll.tenant
    for number, each in enumerate(told):
        if each.type == "passage":
            document = DocumentIn(document_id=f"{chat.name}-{number}", content=each.text)
            documents.keep(database, tenant, document, [each.text])
            continue
        owner = {"scope": "user", "user_id": each.about} if each.about else {"scope": "organization"}
        said = {"content": each.text, "learned_in": chat.chat.chat_id, **owner}
        statements.remember(database, tenant, MemoryPayload.model_validate(said))
    backscroll.run_all("embed")


def is_text_of(text: str, told: Told) -> bool:
    """Tell whether a line or a memory is this one, which may be cut."""
    return one_line(told.text)[:60] in one_line(text)


def _told(backscroll: Shipped, name: str, told: Sequence[Told], say: Say) -> Iterator[str]:
    """Remember in a chat that was asked already, and yield what is asked and shown of it."""
    chat = samples.read_chat(name)
    remember(backscroll, chat, told)
    for each in told:
        say(f"{name}: {each.type}")
        for how in HOWS:
            context = _context(backscroll, chat, getattr(each, how))
            shown = [item.text for block in context.blocks for item in block.items if block.kind in FOUND]
            yield f"{each.type} {how}"
            if any(is_text_of(text, each) for text in shown):
                yield f"{each.type} {how} shown"


def _searched(backscroll: Shipped, sample: RelevanceSample, say: Say) -> dict[str, Any]:
    """Search statements of one organization; precision is over all that is returned, recall over all that is right."""
    database, tenant = backscroll.database, backscroll.tenant
    identities = {}
    for each in sample.statements:
        written = statements.remember(
            database, tenant, MemoryPayload(scope="organization", content=each.text)
        )
        identities[each.id] = str(written.id)
    backscroll.run_all("embed")
    found = right = wanted = silent = unanswerable = 0
    for number, search in enumerate(sample.searches, start=1):
        say(f"search {number} of {len(sample.searches)}")
        query = MemoryQuery(query=search.query, limit=100)
        result = search_memories(database, tenant, query, embedder=backscroll.resources.embedder)
        hits = {str(hit.memory.id) for hit in result.hits}
        expected = {identities[name] for name in search.right}
        found, right, wanted = found + len(hits), right + len(hits & expected), wanted + len(expected)
        unanswerable += not expected
        silent += not expected and not hits
    return {
        "precision": round(right / max(found, 1), 3),
        "recall": round(right / max(wanted, 1), 3),
        "silent where nothing answers": round(silent / max(unanswerable, 1), 3),
    }
