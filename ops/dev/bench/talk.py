"""Made-up talk to measure with, in sessions of about twenty messages: words of three scripts, and English."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from schemas.messages import MessageIn

# Long enough ago that a chat of 100,000 messages, nine years of it, ends in the past.
START = datetime(2010, 1, 4, 8, 0, tzinfo=UTC)
PEOPLE = ("Ann", "Боб", "小明", "Δήμητρα", "Ève", "Fay")
ENGLISH_PEOPLE = ("Ann Lee", "Bob Carter", "Maria Silva", "Tom", "Eve Novak", "Dr Fay House")
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
THINGS = (
    "boiler plumber garden key invoice budget bicycle laptop dentist train ticket passport lamp window kitchen roof "
    "server release database meeting contract landlord neighbour school teacher guitar concert recipe soup bread car "
    "garage doctor medicine holiday hotel flight beach mountain tent puppy kitten birthday present cake party report "
    "deadline password router printer camera wallet umbrella coat shoes museum painting book library exam result "
    "job interview salary heating bathroom sink tap paint wall carpet sofa table chair parcel letter visa insurance"
).split()
# what a slot of a sentence is filled with
_SLOTS = {
    "did": (
        "fixed lost found bought sold cleaned moved cancelled booked paid borrowed returned checked painted ordered "
        "repaired forgot finished started changed signed opened closed measured replaced delivered collected postponed"
    ).split(),
    "thing": THINGS,
    "thing2": THINGS,
    "name": [name.split()[0] for name in ENGLISH_PEOPLE],
    "place": "Porto London Almada Berlin Lisbon Leeds Madrid Krakow Utrecht Lyon".split(),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": "January February March April May June July August September October November December".split(),
    "number": range(1, 29),
    "hour": range(7, 22),
    "feeling": "happy tired worried relieved annoyed curious sure glad sorry busy".split(),
}
_SAID = (
    "I {did} the {thing} on {day}.",
    "{name} {did} the {thing} in {place} last {day}.",
    "The {thing} comes on {number} {month}, at {hour}:30.",
    "Has anybody {did} the {thing}?",
    "I am so {feeling} about the {thing} and the {thing2}.",
    "We decided to keep the {thing} until {month}.",
    "ok, thanks!",
    "haha yes",
    "My {thing} costs {number}0 euros, {name} says it is worth it.",
    "Could you ask {name} whether the {thing2} in {place} is still there? I need it for the {thing}.",
    "No idea. Let me look at the {thing} first, then we {did} the rest of it together with {name}.",
    "The code for the {thing} is {number}{number}7, do not lose it again.",
    "It rained all day in {place}, so we stayed inside, {did} the {thing} and talked about the {thing2}.",
)
_ASKED = (
    "When was the {thing} {did}?",
    "Who {did} the {thing} and the {thing2}?",
    "What did we decide about the {thing}?",
    "What did people say about the {thing} in spring, and the {thing2}?",
    "How much does the {thing} cost?",
    "Where is the {thing} now, and is the {thing2} {did} yet?",
    "Is anybody still {feeling} about the {thing}?",
)


def question_words(rng: random.Random) -> str:
    """Return five words that are neither the most frequent ones nor seldom enough to be easy."""
    return " ".join(rng.sample(VOCABULARY[30:1500], 5))


def english_question(rng: random.Random) -> str:
    """Ask something in the words of the English talk."""
    return _filled(rng, rng.choice(_ASKED))


def conversation(seed: int, messages: int) -> Iterator[MessageIn]:
    """Talk in words as frequent as in real talk."""

    def text(rng: random.Random) -> str:
        words = rng.choices(VOCABULARY, WEIGHTS, k=min(40, 3 + int(rng.expovariate(0.12))))
        return " ".join(words) + rng.choice((".", "?", "", "!"))

    return _talk(seed, messages, PEOPLE, text)


def english(seed: int, messages: int) -> Iterator[MessageIn]:
    """Talk in real words, with names and dates, as people write them."""

    def text(rng: random.Random) -> str:
        return " ".join(_filled(rng, rng.choice(_SAID)) for _ in range(rng.choice((1, 1, 1, 2, 3))))

    return _talk(seed, messages, ENGLISH_PEOPLE, text)


def numbered(number: int) -> list[MessageIn]:
    """Return a short message that is like no other."""
    content = f"Message {number} tells of the harbour, the lamp and {number * 7919 % 10007} other things."
    sent_at = START + timedelta(minutes=number)
    return [MessageIn(external_id=f"b{number}", sender_id="bench:0", content=content, sent_at=sent_at)]


def _filled(rng: random.Random, sentence: str) -> str:
    return sentence.format(**{slot: rng.choice(values) for slot, values in _SLOTS.items()})


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
