"""Made-up talk to measure with, and texts in many scripts and of any length."""

import itertools
import random
import tomllib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from schemas.messages import MessageIn

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
_ENGLISH = tomllib.loads((Path(__file__).parent / "english.toml").read_text("utf-8"))
ENGLISH_PEOPLE: Sequence[str] = _ENGLISH["people"]
_SLOTS = "did thing thing2 name place day month number hour feeling".split()
_WORDS = {slot: _ENGLISH["slots"][slot.removesuffix("2")].split() for slot in _SLOTS}


def question_words(rng: random.Random) -> str:
    """Return five words that are neither the most frequent ones nor seldom enough to be easy."""
    return " ".join(rng.sample(VOCABULARY[30:1500], 5))


def english_question(rng: random.Random) -> str:
    """Ask something in the words of the English talk."""
    return _filled(rng, rng.choice(_ENGLISH["asked"]))


def conversation(seed: int, messages: int) -> Iterator[MessageIn]:
    """Talk in words as frequent as in real talk."""

    def text(rng: random.Random) -> str:
        words = rng.choices(VOCABULARY, WEIGHTS, k=min(40, 3 + int(rng.expovariate(0.12))))
        return " ".join(words) + rng.choice((".", "?", "", "!"))

    return _talk(seed, messages, PEOPLE, text)


def english(seed: int, messages: int) -> Iterator[MessageIn]:
    """Talk in real words, with names and dates, as people write them."""

    def text(rng: random.Random) -> str:
        return " ".join(
            _filled(rng, rng.choice(_ENGLISH["said"])) for _ in range(rng.choice((1, 1, 1, 2, 3)))
        )

    return _talk(seed, messages, ENGLISH_PEOPLE, text)


def _filled(rng: random.Random, sentence: str) -> str:
    return sentence.format(**{slot: rng.choice(words) for slot, words in _WORDS.items()})


def _talk(
    seed: int, messages: int, people: Sequence[str], text: Callable[[random.Random], str]
) -> Iterator[MessageIn]:
    rng = random.Random(seed)  # noqa: S311
    at = START
    for number in range(messages):
        new_session = rng.random() < 0.05
        at += timedelta(hours=rng.uniform(1, 30)) if new_session else timedelta(seconds=rng.uniform(5, 240))
        speaker = rng.choice(people)
        yield MessageIn(
            external_id=f"b{number}",
            sender_id=f"bench:{speaker}",
            sender_name=speaker,
            content=text(rng),
            sent_at=at,
        )


SENTENCES = {
    "latin": "Žofie našla u řeky modrou loďku a Jürgen den Schlüssel.",
    "cyrillic": "Аня нашла у реки синюю лодку, а Богдан потерял ключ от дома.",
    "greek": "Η Άννα βρήκε μια μπλε βάρκα στο ποτάμι και ένα κλειδί.",
    "arabic": "وجدت آنا قاربًا أزرق عند النهر وفقد بدر مفتاح البيت.",
    "devanagari": "अंजलि को नदी के पास नीली नाव मिली और भरत ने चाबी खो दी।",
    "chinese": "安娜在河边找到了一条蓝色的小船，小明把家里的钥匙弄丢了。",
    "japanese": "アンナは川で青いボートを見つけ、ケンは家の鍵をなくした。",
    "emoji": "🚣🏽‍♀️🌊 🔑❓ 👨‍👩‍👧 🏠💙 👍🏿 🎉",
}
"""A sentence in each script; several characters of `emoji` are more than one code point."""
_LEAST_BYTES, _LONG = 100, 0.01


def any_text(rng: random.Random, most_bytes: int) -> str:
    """Return some words of a random script, or, once in a hundred, a text of any length up to `most_bytes`.

    Of those that are long, each order of magnitude is as frequent as another.
    """
    sentence = SENTENCES[rng.choice(list(SENTENCES))]
    between = " " if " " in sentence else ""
    words = between.join(rng.choices(sentence.split() if between else sentence, k=rng.randint(3, 12)))
    if rng.random() >= _LONG:
        return words
    return repeated(words + " ", int(_LEAST_BYTES * (most_bytes / _LEAST_BYTES) ** rng.random()))


def repeated(text: str, size: int) -> str:
    """Return a text again and again, with at most `size` bytes in UTF-8."""
    encoded = text.encode()
    return (encoded * (size // len(encoded) + 1))[:size].decode(errors="ignore")
