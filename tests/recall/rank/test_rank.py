"""Ranking: what speaks for a message, and that nothing else does."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.find.candidates import Candidate, QueryMatch, Statistics
from pipeline.recall.profiles import OTHER_QUERY_WEIGHT, Weights
from pipeline.recall.question import parse as question
from pipeline.recall.rank import rank
from pipeline.recall.rank.rank import Scored
from schemas.sessions import RepliedTo
from tests.recall.found import START, candidate


def ask(text: str, *people: str) -> question.Question:
    return question.read(text, people, START, START, "english")


def ranked(
    text: str,
    candidates: list[Candidate],
    people: tuple[str, ...] = (),
    weights: Weights = Weights(),  # noqa: B008 - it is frozen
    **known: object,
) -> list[Scored]:
    """Rank with statistics of these candidates, and what else is known of the chat."""
    frequency: dict[str, int] = {}
    for c in candidates:
        for term in c.terms:
            frequency[term] = frequency.get(term, 0) + 1
    statistics = Statistics(messages=100, mean_length=5, document_frequency=frequency, mean_cosine=0.1)
    found = rank.rank(ask(text, *people), candidates, replace(statistics, **known), weights)
    for hit in found:
        assert abs(sum(hit.parts.values()) - hit.score) < 1e-9
    return found


def ids(text: str, candidates: list[Candidate], people: tuple[str, ...] = (), **weights: float) -> list[int]:
    return [hit.candidate.id for hit in ranked(text, candidates, people, Weights(**weights))]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    common = [candidate(n, session=n, place=0, terms={"go": 1}) for n in range(10, 40)]
    assert ids("go marina", [*common, candidate(1, session=99, place=0, terms={"marina": 1})])[0] == 1


def test_what_follows_a_relevant_question_of_somebody_else_is_preferred_as_its_answer() -> None:
    talk = [
        candidate(1, "how do we get to Svaneti", terms={"svaneti": 1}, speaker="Ivo"),
        candidate(2, "by the small plane from Natakhtari", speaker="Basil"),
        candidate(3, "who waters the plants", session=2, place=0, speaker="Ivo"),
        candidate(4, "by the small plane from Natakhtari", session=2, place=1, speaker="Basil"),
    ]
    frequency = {"svaneti": 1}
    statistics = Statistics(messages=100, mean_length=5, document_frequency=frequency)
    parts = {h.candidate.id: h.parts for h in rank.rank(ask("Svaneti"), talk, statistics, Weights())}
    assert parts[2]["answers"] > parts[4]["answers"] == 0


def test_a_message_counts_as_a_question_as_far_as_it_asks() -> None:
    def answered(share: float) -> float:
        cues = candidate(1)._asdict()["cues"]._replace(asks=share)
        talk = [
            candidate(1, "Svaneti", terms={"svaneti": 1}, speaker="Ivo", cues=cues),
            candidate(2, "by the small plane from Natakhtari", speaker="Basil"),
        ]
        found = {hit.candidate.id: hit for hit in ranked("Svaneti", talk)}
        return found[2].parts["answers"]

    assert 0 == answered(0.0) < answered(0.35) < answered(0.5) == answered(1.0)


def test_what_is_said_next_shares_more_of_a_word_than_what_was_said_before_and_less_than_what_says_it() -> (
    None
):
    talk = [candidate(n, speaker="Ann", terms={"marina": 1} if n == 3 else {}) for n in range(1, 6)]
    words = {hit.candidate.id: hit.parts["words"] for hit in ranked("marina", talk)}
    assert words[3] > words[4] > words[2] > 0
    assert words[4] > words[5]


def test_of_other_wordings_only_those_count_by_which_a_message_was_compared() -> None:
    others = [QueryMatch(terms={}, cosine=None), QueryMatch(terms={}, cosine=0.5)]
    assert candidate(1, others=others).best_cosine == 0.5 * OTHER_QUERY_WEIGHT
    assert candidate(1, cosine=0.6, others=others).best_cosine == 0.6
    assert candidate(1, others=others[:1]).best_cosine is None


def test_what_is_quoted_outweighs_all_else_together() -> None:
    talk = [
        candidate(1, "it is the small blue door", session=1, place=0, speaker="Bob"),
        candidate(2, "the door", session=2, place=0, speaker="Ann", terms={"door": 2}, cosine=0.9),
    ]
    assert ids('when did Ann say "small blue door" on 2 March 2026?', talk, ("Ann", "Bob"))[0] == 1


@pytest.mark.parametrize(
    ("asked", "inside"),
    [
        ("the vet before 5 March 2026?", [1]),
        ("the vet between 4 and 6 March 2026?", [2]),
    ],
)
def test_times_are_open_to_the_side_that_a_question_leaves_open(asked: str, inside: list[int]) -> None:
    talk = [
        candidate(number, session=number, place=0, sent_at=START + timedelta(days=days))
        for number, days in enumerate([1, 3, 30], start=1)
    ]
    question_then = question.read(asked, (), START, START + timedelta(days=40), "english")
    statistics = Statistics(messages=100, mean_length=5, document_frequency={"vet": 3})
    found = rank.rank(question_then, talk, statistics, Weights())
    best = max(hit.parts["date"] for hit in found)
    assert {hit.candidate.id for hit in found if hit.parts["date"] == pytest.approx(best)} == set(inside)


def test_a_day_counts_whole_a_longer_time_less_and_a_message_of_five_days_later_half() -> None:
    day, two, month = "on 5 March 2026", "from 5 to 6 March 2026", "in April 2026"
    for time, days, fit in ((day, 3, 1), (day, 8.25, 0.5), (two, 3, 15 / 16), (month, 40, 15 / 44)):
        said = candidate(1, sent_at=START + timedelta(days=days))
        (found,) = ranked(f"the vet {time}?", [said], weights=Weights(date=1.0))
        assert found.parts["date"] == pytest.approx(fit)


def test_where_the_latest_is_asked_for_the_newest_counts_whole_and_the_oldest_nothing() -> None:
    for count in (2, 3, 5):
        talk = [candidate(n, session=n, place=0) for n in range(count)]
        found = ranked("how is the boiler now?", talk, weights=Weights(latest=1.0))
        for hit in found:
            assert hit.parts["latest"] == pytest.approx(hit.candidate.id / (count - 1))


WORDS = ["boiler", "marina", "job"]
ASKED = [
    "boiler marina?",
    "when did Ann fix the boiler?",
    "how many marinas now?",
    'what did we decide about the "boiler" on 2 March 2026?',
    "before 3 March 2026, what of A-1234?",
]


def in_places(spoken: list[tuple[int, int, Candidate]]) -> list[Candidate]:
    """Candidates in their sessions, each one or more places after the one before: gaps, as retrieval reads them."""
    places: dict[int, int] = {}
    found = []
    for number, (session, step, one) in enumerate(spoken, start=1):
        places[session] = places.get(session, 0) + step
        at = START + timedelta(minutes=number)
        said = one.message._replace(id=number, sent_at=at)
        found.append(one._replace(message=said, session=session, place=places[session]))
    return found


matches = st.builds(
    QueryMatch,
    terms=st.dictionaries(st.sampled_from(WORDS), st.integers(1, 3)),
    cosine=st.none() | st.floats(-1, 1),
)
talks = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(1, 2),
        st.builds(
            candidate,
            st.just(0),
            st.text(max_size=30)
            | st.sampled_from(["who?", "ok, we take Beatriz", "the boiler", "at 18:30", "912"]),
            speaker=st.sampled_from(["Ann", "Bob"]),
            terms=st.dictionaries(st.sampled_from(WORDS), st.integers(1, 3)),
            cosine=st.none() | st.floats(-1, 1),
            length=st.integers(0, 50),
            answered=st.none() | st.integers(1, 25).map(lambda n: RepliedTo(n, "Bob", "who?")),
            noise=st.booleans(),
            others=matches.map(lambda one: [one]),
        ),
    ),
    max_size=25,
).map(in_places)


@given(talks, st.sampled_from(ASKED), st.floats(0, 1), st.randoms())
def test_ranking_does_not_depend_on_the_order_of_candidates_and_parts_add_up(
    candidates: list[Candidate], asked: str, trust: float, random: Random
) -> None:
    def counted(holds: Callable[[Candidate], Collection[str]]) -> dict[str, int]:
        return {word: sum(word in holds(one) for one in candidates) for word in WORDS}

    statistics = Statistics(
        messages=100,
        mean_length=5,
        document_frequency=counted(lambda one: one.terms),
        mean_cosine=0.1,
        trust=trust,
        others=[
            Statistics(
                messages=100, mean_length=5, document_frequency=counted(lambda one: one.others[0].terms)
            )
        ],
    )
    question = ask(asked, "Ann", "Bob")
    ranked = rank.rank(question, candidates, statistics, Weights())
    shuffled = list(candidates)
    random.shuffle(shuffled)
    # every part and every score is the same to the last bit, too
    assert rank.rank(question, shuffled, statistics, Weights()) == ranked
    assert {hit.candidate.id for hit in ranked} == {one.id for one in candidates}
    for hit in ranked:
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-9)
    # noise comes last, and the best of the others first
    order = [(hit.candidate.noise, -hit.score) for hit in ranked]
    assert order == sorted(order)
