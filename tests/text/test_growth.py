"""No text that people send takes time that grows with its square: whatever reads texts is tried with the worst."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from itertools import count, islice

import pytest

from ops.dev.bench import served
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.facts import fact_model
from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.enrich.protocols import People
from pipeline.enrich.summaries import extractive
from pipeline.enrich.summaries.prompts import InvalidAnswer
from pipeline.memories import entities
from pipeline.platforms import dates, slack_export
from pipeline.platforms.whatsapp import whatsapp_text
from pipeline.recall.question import conversation, event_mentions, names, parse
from pipeline.text import exact_match, excerpt, fencing, sentences, tokens, truncate
from pipeline.text.calendars import spans
from pipeline.text.cues import answer_types, message_cues
from schemas import messages
from schemas.sessions import Message
from tests.text.builders import message
from tests.text.growth import LONG, MOST_TIMES, times_as_long

# coverage would take longer than what it watches
pytestmark = pytest.mark.no_cover

NOW = datetime(2026, 4, 15, tzinfo=UTC)
FERRY = excerpt.Wanted.of("when does the ferry go", "english")
NAMES = ["Ann Lee", "Bob", "Will", "Олег", "李明", "a b c"]


def question(text: str, language: str = "english") -> parse.Question:
    return parse.read(text, NAMES, datetime(2016, 5, 1, tzinfo=UTC), NOW, language)


def session(text: str) -> list[Message]:
    """A session in which many people say it all, in messages of 200 characters."""
    parts = [text[at : at + 200] for at in range(0, len(text), 200)]
    return [message(part, f"Имя{number}", id=number) for number, part in enumerate(parts, start=1)]


def words_that_never_recur(size: int) -> str:
    """Words of four letters, of which no two are the same, some at the beginning of a sentence."""
    words = ("".join(chr(0x430 + (number // 28**place) % 28) for place in range(4)) for number in count())
    return "".join(
        f"{word}{'. И ' if number % 9 == 0 else ' '}" for number, word in enumerate(islice(words, size // 4))
    )[:size]


def read_facts(text: str) -> None:
    """As what is said in a session, and as what a model answers."""
    said = [message(text, id=1)]
    fact_model.Transcript(said).states("Ann lives in Porto.", "Ann", [0])
    people = People(kind="group", names={"Ann": "test:ann"})
    with suppress(InvalidAnswer):
        fact_model.read_facts(text, said, people=people, known=[], time_zone=UTC)
    fact = {"content": text, "category": "fact", "about": "speaker", "subject": text, "messages": [1]}
    fact_model.read_facts(json.dumps({"facts": [fact]}), said, people=people, known=[], time_zone=UTC)


def read_export(text: str) -> None:
    for iphone in (True, False):
        whatsapp_text.read_text(text, iphone=iphone)
    for start in (text, f"[{text}"):
        dates.read_start(start)


def read_question(text: str, language: str) -> None:
    """All that a question says in a language: times, people, events, what it asks for."""
    conversation.is_followup(question(text, language))
    answer_types.asked(text, language)
    spans.times_named(text, datetime(2016, 5, 1, tzinfo=UTC), NOW, language)
    names.find(text, NAMES, language)
    event_mentions.mention(text, language)


READERS: dict[str, Callable[[str], object]] = {
    # one of each way to write: all languages have patterns made of their data in the same way
    **{f"a question in {name}": partial(read_question, language=name) for name in ("english", "chinese")},
    **{f"cues in {name}": partial(message_cues.read_cues, language=name) for name in ("english", "chinese")},
    "chunks": lambda text: tokens.split_chunks(text, limit=200, overlap=30),
    "clean_text": messages.clean_text,
    "days": lambda text: list(spans.days_from(text, date(2026, 4, 15))),
    "embedder": DeterministicEmbedder(max_chars=LONG).embed_query,
    "excerpt": lambda text: excerpt.best_part(text, FERRY, 60),
    "excerpt of a passage": lambda text: excerpt.displayed(text, FERRY, 60, in_lines=True),
    "facts": read_facts,
    "harmless": fencing.harmless,
    "kept on request": lambda text: RequestExtractor().extract(
        session(text), people=People(kind="direct", agent="Pip")
    ),
    "names that a question may hold": lambda text: entities.possible_names(text, "english"),
    "one_line": truncate.one_line,
    "sentences": sentences.sentences,
    "slack": lambda text: slack_export.plain_text(text, {}),
    "summary": lambda text: extractive.summarize(session(text)),
    "verbatim": lambda text: exact_match.take_out(text, {"ann"}),
    "whatsapp": read_export,
    "within_tokens": partial(truncate.within_tokens, tokens=100),
    "without_recalled": lambda text: fencing.without_recalled(fencing.OPEN + text),
}
# Of the texts, one in so many where reading each takes long.
SOME = 5
SLOW = {
    "a question in english",
    "a question in chinese",
    "chunks",
    "days",
    "excerpt",
    "excerpt of a passage",
    "kept on request",
    "summary",
}
SIGNS = "a|Ab, |漢|1 |1:|。|. |!?|' |“|(|<|</|@a |# |-|_|\n |\x00".split("|")


def texts() -> dict[str, Callable[[int], str]]:
    """What `ops.dev.bench.served` sends, and runs of signs: each as long as wanted."""
    found: dict[str, Callable[[int], str]] = {"words that never recur": words_that_never_recur}
    for piece in sorted({*served.REPEATED, *SIGNS}):
        found[repr(piece)] = lambda size, piece=piece: piece * (size // len(piece))
    for begin, end in served.FRAMES:
        found[f"{begin!r} spaces {end!r}"] = lambda size, begin=begin, end=end: begin + " " * size + end
    return found


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_of_text_takes_time_that_grows_with_the_square_of_it(reader: str) -> None:
    for told, text in islice(texts().items(), 0, None, SOME if reader in SLOW else 1):
        times = times_as_long(READERS[reader], text)
        assert times < MOST_TIMES, f"{reader} of {told}: {times:.0f} times as long for four times the text"


def test_a_reader_that_takes_time_that_grows_with_the_square_is_found_out() -> None:
    # from each letter it reads to the end, in vain
    assert times_as_long(re.compile("a+b").findall, lambda size: "a" * size) >= MOST_TIMES
