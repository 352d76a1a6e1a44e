"""Made-up talk to measure with: words as frequent as in real talk, in three scripts."""

import itertools
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from schemas.messages import MessageIn

# The model would take most of an hour for more.
EMBEDDED_UP_TO = 10_000
# Long enough ago that a chat of 100,000 messages, nine years of it, ends in the past.
START = datetime(2010, 1, 4, 8, 0, tzinfo=UTC)
PEOPLE = ("Ann", "Боб", "小明", "Δήμητρα", "Ève", "Fay")
_SYLLABLES = [a + b for a in "btkmsrldgpf" for b in ("a", "o", "in", "u", "er")]
_LETTERS = "btkmsrldgpfaoinue"
_IN_SCRIPT = [
    str.maketrans(_LETTERS, letters) for letters in (_LETTERS, "бткмсрлдгпфаоинуе", "βτκμσρλδγπφαοινυε")
]
# of words that are used equally often each is in another script
VOCABULARY = [
    (first + second).translate(_IN_SCRIPT[number % len(_IN_SCRIPT)])
    for number, (first, second) in enumerate(itertools.product(_SYLLABLES, repeat=2))
]
# Zipf's law: the n-th word is used 1/n times as often as the first.
WEIGHTS = [1 / rank for rank in range(1, len(VOCABULARY) + 1)]


def question_words(rng: random.Random) -> str:
    """Five words that are neither the most frequent ones nor seldom enough to be easy."""
    return " ".join(rng.sample(VOCABULARY[30:1500], 5))


def conversation(
    seed: int, messages: int, people: Sequence[str] = PEOPLE, in_session: int | None = None
) -> Iterator[MessageIn]:
    """Talk in sessions of about twenty messages, in each `in_session` of the people, or all of them."""
    rng = random.Random(seed)  # noqa: S311
    at, talking = START, people if in_session is None else rng.sample(people, in_session)
    for number in range(messages):
        if rng.random() < 0.05:
            at += timedelta(hours=rng.uniform(1, 30))
            talking = people if in_session is None else rng.sample(people, in_session)
        else:
            at += timedelta(seconds=rng.uniform(5, 240))
        words = rng.choices(VOCABULARY, WEIGHTS, k=min(40, 3 + int(rng.expovariate(0.12))))
        speaker = rng.choice(talking)
        yield MessageIn(
            external_id=f"b{number}",
            sender_id=f"bench:{speaker}",
            sender_name=speaker,
            content=" ".join(words) + rng.choice((".", "?", "", "!")),
            sent_at=at,
        )


def numbered(numbers: range, keys: int = 0, people: int = 5) -> list[MessageIn]:
    """Short messages in sessions of some twenty, no two alike; with `keys` under as many session keys in turn."""
    return [
        MessageIn(
            external_id=f"b{n}",
            sender_id=f"bench:{n % people}",
            content=f"Message {n} tells of the harbour, the lamp and {n * 7919 % 10007} other things.",
            sent_at=START + timedelta(minutes=n, hours=n // 20),
            session_key=f"key-{n % keys}" if keys else "",
        )
        for n in numbers
    ]
