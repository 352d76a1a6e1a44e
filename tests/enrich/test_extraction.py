"""What is extracted from a session costs what its text is long, whatever is said in it, and never more than so much."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, product
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.enrich.facts import extraction
from pipeline.enrich.facts.kept_on_request import RequestExtractor
from pipeline.enrich.protocols import People, Source
from pipeline.enrich.summaries import extractive, passages
from pipeline.enrich.summaries.passages import Passage
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
@pytest.mark.parametrize(
    ("reader", "shape"),
    sorted(product(READERS, SHAPES)),
)
def test_four_times_the_session_takes_no_sixteen_times_as_long(reader: str, shape: str) -> None:
    if reader == "facts":
        facts(session("x"))  # its patterns are read once
    long = talk(shape, 8000 * TIMES // 4)

    def read(text: str) -> None:
        READERS[reader](session(long[: len(text) * TIMES // 4]))

    assert times_as_long(read, lambda size: "x" * size) < MOST_TIMES


# What is chosen


def plainly_chosen(said: Sequence[Passage], weights: Mapping[str, float], room: int) -> list[Passage]:
    """The choice as it is defined: each time, the passage that adds most of all that are left."""
    several = [index for index, each in enumerate(said) if len(each.terms) > 1]
    left = several or [index for index, each in enumerate(said) if each.terms]
    covered: set[str] = set()
    chosen: list[int] = []

    def size(index: int) -> int:
        return len(said[index].speaker) + 3 + len(said[index].text)

    def gain(index: int) -> float:
        new = sum(weights[term] * (0.15 if term in covered else 1.0) for term in said[index].terms)
        return float(new * said[index].factor / (60 + len(said[index].text)) ** 0.7)

    while left and len(chosen) < 6:
        best = max(left, key=gain)
        left.remove(best)
        if size(best) <= room or not chosen:
            chosen.append(best)
            covered |= said[best].terms
            room -= size(best)
    return [said[index] for index in sorted(chosen)]


PASSAGES = st.builds(
    Passage,
    speaker=st.sampled_from(["Zoë", "Ли", ""]),
    text=st.integers(1, 240).map("я".__mul__),
    terms=st.frozensets(st.sampled_from("abcdefghij"), max_size=5),
    factor=st.sampled_from([0.6, 1.0, 1.25]),
)


@given(
    st.lists(PASSAGES, max_size=40), st.lists(st.floats(0, 3), min_size=10, max_size=10), st.integers(0, 1100)
)
def test_the_choice_is_that_of_the_plain_greedy(said: list[Passage], weights: list[float], room: int) -> None:
    by_term = dict(zip("abcdefghij", weights, strict=True))
    assert passages.choose(said, by_term, room) == plainly_chosen(said, by_term, room)


class Counting(dict[str, float]):
    """Weights that count how often they are asked for."""

    asked = 0

    def get(self, term: str, default: float = 0.0) -> float:  # type: ignore[override]
        self.asked += 1
        return super().get(term, default)


def test_passages_that_do_not_fit_are_weighed_a_few_times_each() -> None:
    asked = []
    for size in (500, 2000):
        said = [
            Passage(
                speaker="",
                text="ж" * 240,
                terms=frozenset(map(word, range(n, n + 9))),
                factor=1,
            )
            for n in range(size)
        ]
        weights = Counting({word(n): 1 + n % 7 / 10 for n in range(size + 9)})
        assert len(passages.choose(said, weights, 245)) == 1
        asked.append(weights.asked)
    assert asked[1] < MOST_TIMES * asked[0]


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
