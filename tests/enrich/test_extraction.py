"""What is extracted from a session costs what its text is long, whatever is said in it, and never more than so much."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, product
from threading import Thread

import pytest

from pipeline.enrich.facts import extraction
from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.enrich.protocols import People, Source
from pipeline.enrich.summaries import extractive
from schemas.sessions import Message
from tests.text.builders import message
from tests.text.growth import MOST_TIMES, times_as_long

# A message is 200 characters, so that these are sessions of 15 and of 60.
TIMES = 6


def word(number: int) -> str:
    """A word that no other number gives, of whichever letters."""
    return "".join(chr(0x430 + (number // 28**place + 7 * place) % 28) for place in range(4))


SHAPES: dict[str, Callable[[int], str]] = {
    "words that never recur": lambda n: (
        f"{word(5 * n)} {word(5 * n + 1)} {word(5 * n + 2)} {word(5 * n + 3)}. "
    ),
    "names": lambda n: f"и {word(2 * n).title()} {word(2 * n + 1).title()} и ",
    "requests": lambda n: f"запомни, что {word(2 * n)} {word(2 * n + 1)}. ",
    "Chinese without an end": lambda n: chr(0x4E00 + 31 * n % 20000) + chr(0x4E00 + 17 * n % 20000),
}


def talk(shape: str, chars: int) -> str:
    pieces, text = map(SHAPES[shape], count()), ""
    parts: list[str] = []
    size = 0
    while size < chars:
        parts.append(text := next(pieces))
        size += len(text)
    return "".join(parts)[:chars]


def session(text: str) -> list[Message]:
    """A session in which hundreds of people say a text, 200 characters each."""
    parts = [text[at : at + 200] for at in range(0, len(text), 200)]
    return [message(part, f"Имя{n} {word(n)}", id=n, minute=n) for n, part in enumerate(parts)]


def facts(said: Sequence[Message]) -> object:
    return RequestExtractor().extract(said, people=People(kind="direct", agent="Пип"))


READERS: dict[str, Callable[[Sequence[Message]], object]] = {
    "summary": partial(extractive.summarize, language="russian"),
    "facts": facts,
}


@pytest.mark.no_cover
@pytest.mark.parametrize(("reader", "shape"), sorted(product(READERS, SHAPES)))
def test_four_times_the_session_takes_no_sixteen_times_as_long(reader: str, shape: str) -> None:
    if reader == "facts":
        facts(session("x"))  # its patterns are read once
    long = talk(shape, 8000 * TIMES // 4)

    def read(text: str) -> None:
        READERS[reader](session(long[: len(text) * TIMES // 4]))

    assert times_as_long(read, lambda size: "x" * size) < MOST_TIMES


# What is chosen


# However long a session is


def test_of_very_much_text_the_beginning_of_each_message_is_read_and_the_summary_says_so() -> None:
    # Given a thousand messages of two thousand letters, of which each begins with what it is about
    said = [message(f"Тема {word(n)}. " + "очень " * 330 + "концовка.", id=n, minute=n) for n in range(1000)]
    # When they are summarized, then no more is read than of the same messages cut
    cut = [replace(each, content=each.content[:200]) for each in said]
    summary = extractive.summarize(said, language="russian")
    assert "the first 200 characters of each message" in summary.summary
    assert summary.topics == extractive.summarize(cut, language="russian").topics
    # and what fits is read whole
    few = extractive.summarize(said[:50], language="russian")
    assert "characters of each message" not in few.summary


def test_threads_extract_one_after_another_and_keep_their_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "WAIT_SECONDS", 0.02)
    inside, renewed, most = [], [], []
    source = Source(before_call=lambda: renewed.append(1))

    def extract() -> None:
        with extraction.turn(source):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    threads = [Thread(target=extract) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6
    # those that waited said meanwhile that they are alive
    assert renewed
