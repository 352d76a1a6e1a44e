"""Made-up talk in English to measure with: real words, names, dates and questions, as people write them."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from schemas.messages import MessageIn

# Long enough ago that a chat of 100,000 messages ends in the past.
START = datetime(2010, 1, 4, 8, 0, tzinfo=UTC)
PEOPLE = ("Ann Lee", "Bob Carter", "Maria Silva", "Tom", "Eve Novak", "Dr Fay House")
PLACES = "Porto London Almada Berlin Lisbon Leeds Madrid Krakow Utrecht Lyon".split()
THINGS = (
    "boiler plumber garden key invoice budget bicycle laptop dentist train ticket passport lamp window kitchen roof "
    "server release database meeting contract landlord neighbour school teacher guitar concert recipe soup bread car "
    "garage doctor medicine holiday hotel flight beach mountain tent puppy kitten birthday present cake party report "
    "deadline password router printer camera wallet umbrella coat shoes museum painting book library exam result "
    "job interview salary heating bathroom sink tap paint wall carpet sofa table chair parcel letter visa insurance"
).split()
DID = (
    "fixed lost found bought sold cleaned moved cancelled booked paid borrowed returned checked painted ordered "
    "repaired forgot finished started changed signed opened closed measured replaced delivered collected postponed"
).split()
FEELINGS = "happy tired worried relieved annoyed curious sure glad sorry busy".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
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


def _filled(rng: random.Random, sentence: str) -> str:
    return sentence.format(
        did=rng.choice(DID),
        thing=rng.choice(THINGS),
        thing2=rng.choice(THINGS),
        name=rng.choice(PEOPLE).split()[0],
        place=rng.choice(PLACES),
        day=rng.choice(DAYS),
        month=rng.choice(MONTHS),
        number=rng.randint(1, 28),
        hour=rng.randint(7, 21),
        feeling=rng.choice(FEELINGS),
    )


def question(rng: random.Random) -> str:
    """Ask something in the words of the talk."""
    return _filled(rng, rng.choice(_ASKED))


def talk(seed: int, messages: int) -> Iterator[MessageIn]:
    """Talk in sessions of about twenty messages."""
    rng = random.Random(seed)  # noqa: S311
    at = START
    for number in range(messages):
        is_new = rng.random() < 0.05
        at += timedelta(hours=rng.uniform(1, 30)) if is_new else timedelta(seconds=rng.uniform(5, 240))
        speaker = rng.choice(PEOPLE)
        said = " ".join(_filled(rng, rng.choice(_SAID)) for _ in range(rng.choice((1, 1, 1, 2, 3))))
        yield MessageIn(
            external_id=f"e{number}",
            sender_id=f"bench:{PEOPLE.index(speaker)}",
            sender_name=speaker,
            content=said,
            sent_at=at,
        )
