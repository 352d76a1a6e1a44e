"""Ranking: what speaks for a message, and that nothing else does."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.question import parse as question
from pipeline.ranking import rank
from pipeline.ranking.model import Candidate, Statistics, Weights
from pipeline.text import message_cues

START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)


def candidate(number: int, text: str = "hm", **fields: object) -> Candidate:
    given = {
        "id": number,
        "session": 1,
        "place": number,
        "external_id": str(number),
        "speaker": f"speaker {number}",
        "role": "user",
        "text": text,
        "sent_at": START + timedelta(minutes=number),
        "terms": {},
        "length": 5,
        "cosine": None,
        "cues": message_cues.read(text, "english"),
    }
    return Candidate(**{**given, **fields})  # type: ignore[arg-type]


def ask(text: str, *people: str) -> question.Question:
    return question.read(text, people, START, START, "english")


def ids(text: str, candidates: list[Candidate], people: tuple[str, ...] = (), **weights: float) -> list[int]:
    frequency: dict[str, int] = {}
    for c in candidates:
        for term in c.terms:
            frequency[term] = frequency.get(term, 0) + 1
    statistics = Statistics(messages=100, mean_length=5, document_frequency=frequency, mean_cosine=0.1)
    scored = rank.rank(ask(text, *people), candidates, statistics, Weights(**weights))
    for hit in scored:
        assert abs(sum(hit.parts.values()) - hit.score) < 1e-9
    return [hit.candidate.id for hit in scored]


def test_a_hit_of_words_alone_and_one_of_meaning_alone_both_surface() -> None:
    found = ids(
        "boiler",
        [
            candidate(1, session=1, place=0),
            candidate(2, session=2, place=0, terms={"boiler": 1}),
            candidate(3, session=3, place=0, cosine=0.8),
        ],
    )
    assert set(found[:2]) == {2, 3}


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    common = [candidate(n, session=n, place=0, terms={"go": 1}) for n in range(10, 40)]
    assert ids("go marina", [*common, candidate(1, session=99, place=0, terms={"marina": 1})])[0] == 1


def test_what_was_said_around_a_match_counts_less_the_farther_away() -> None:
    talk = [candidate(n, terms={"boiler": 1} if n == 3 else {}) for n in range(10)]
    found = ids("boiler", talk)
    assert found[0] == 3
    # a talk goes forward: what follows a match says more of it than what came before
    assert found[1:3] == [4, 5]
    assert found.index(2) < found.index(1) < found.index(0)


def test_a_match_says_nothing_about_another_session() -> None:
    talk = [
        candidate(1, place=0, terms={"boiler": 1}),
        candidate(2, session=2, place=0),
        candidate(3, place=1),
    ]
    assert ids("boiler", talk) == [1, 3, 2]


def test_one_persons_burst_is_nearer_than_another_persons_answer() -> None:
    talk = [
        candidate(1, speaker="Ann", place=0),
        candidate(2, speaker="Bob", place=1, terms={"boiler": 1}),
        candidate(3, speaker="Bob", place=2),
    ]
    assert ids("boiler", talk) == [2, 3, 1]


def test_a_message_without_substance_gains_little_from_its_neighbours() -> None:
    talk = [
        candidate(1, "the boiler is broken", terms={"boiler": 1}),
        candidate(2, "haha", length=0),
        candidate(3, "the plumber from Almada comes at noon", length=4),
    ]
    assert ids("boiler", talk) == [1, 3, 2]


def test_the_less_of_the_question_is_found_by_word_the_more_its_meaning_decides() -> None:
    talk = [
        candidate(1, session=1, place=0, terms={"turn": 1}, cosine=0.1),
        candidate(2, session=2, place=0, cosine=0.5),
    ]

    def lead_of_words(**absent: int) -> float:
        statistics = Statistics(
            messages=100, mean_length=5, document_frequency={"turn": 30, **absent}, mean_cosine=0.1
        )
        scores = {h.candidate.id: h.score for h in rank.rank(ask("turn"), talk, statistics, Weights())}
        return scores[1] - scores[2]

    assert lead_of_words(animal=0, sex=0, assum=0) < lead_of_words(animal=0) < lead_of_words()


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


@pytest.mark.parametrize(
    ("question", "answer", "plain"),
    [
        ("how many seats?", "912 according to the plan", "according to the plan"),
        ("when did it break?", "it broke at 18:30", "it broke at once"),
    ],
)
def test_a_message_with_the_kind_of_thing_that_is_asked_for_is_preferred(
    question: str, answer: str, plain: str
) -> None:
    talk = [candidate(1, answer, session=1, place=0), candidate(2, plain, session=2, place=0)]
    assert ids(question, talk) == [1, 2]
    assert ids("how come?", talk) == [2, 1]


def test_asked_how_things_stand_now_the_newer_of_equal_matches_is_preferred() -> None:
    talk = [
        candidate(1, session=1, place=0, terms={"code": 1}, sent_at=START),
        candidate(2, session=2, place=0, terms={"code": 1}, sent_at=START + timedelta(days=9), length=6),
    ]
    statistics = Statistics(messages=100, mean_length=5, document_frequency={"code": 2})
    then, now = (
        {h.candidate.id: h.score for h in rank.rank(ask(text), talk, statistics, Weights())}
        for text in ("the code?", "the code now?")
    )
    assert then[1] - then[2] > now[1] - now[2]


def test_a_second_good_message_speaks_for_its_session_too() -> None:
    talk = [
        candidate(1, session=7, place=0, terms={"boiler": 1}),
        candidate(2, session=8, place=0, terms={"boiler": 1}),
        candidate(3, session=8, place=9, terms={"boiler": 1}),
    ]
    statistics = Statistics(messages=10, mean_length=5, document_frequency={"boiler": 3})
    scored = rank.rank(ask("boiler"), talk, statistics, Weights(decay=0.01, decay_back=0.01))
    sessions = rank.rank_sessions(scored)
    assert [session for session, _ in sessions] == [8, 7]
    for _, hit in sessions:
        assert abs(sum(hit.parts.values()) - hit.score) < 1e-9


def test_the_one_who_is_named_is_preferred() -> None:
    talk = [candidate(1, session=1, place=0, speaker="Ann"), candidate(2, session=2, place=0, speaker="Bob")]
    assert ids("what does Ann like?", talk, ("Ann", "Bob"))[0] == 1


def test_the_answer_is_preferred_to_the_question() -> None:
    talk = [
        candidate(1, "who fixed the boiler?", terms={"boiler": 1, "fix": 1}),
        candidate(2, "Beatriz fixed it", terms={"fix": 1}),
    ]
    assert ids("who fixed the boiler", talk)[0] == 2


def test_a_date_in_the_question_prefers_what_was_said_then() -> None:
    talk = [
        candidate(1, session=1, place=0, terms={"vet": 1}),
        candidate(2, session=2, place=0, terms={"vet": 1}, sent_at=START + timedelta(days=40)),
    ]
    assert ids("what about the vet on 2 March 2026?", talk)[0] == 1


def test_of_equal_messages_the_newer_comes_first() -> None:
    assert ids("x", [candidate(1, session=1, place=0), candidate(2, session=2, place=0)]) == [2, 1]


def test_the_best_message_speaks_for_its_session() -> None:
    talk = [
        candidate(1, session=7, place=0, terms={"boiler": 1}),
        candidate(2, session=8, place=0),
        candidate(3, session=0, place=0),
    ]
    statistics = Statistics(messages=10, mean_length=5, document_frequency={"boiler": 1})
    scored = rank.rank(ask("boiler"), talk, statistics, Weights())
    assert [session for session, _ in rank.rank_sessions(scored)] == [7, 8]


@given(
    st.lists(
        st.builds(
            candidate,
            st.integers(1, 10_000),
            st.text(max_size=30),
            session=st.integers(0, 3),
            speaker=st.sampled_from("AB"),
            terms=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 3)),
            cosine=st.none() | st.floats(-1, 1),
            length=st.integers(0, 50),
        ),
        max_size=25,
        unique_by=lambda c: c.id,
    ),
    st.randoms(),
)
def test_the_order_of_candidates_does_not_matter(candidates: list[Candidate], random: object) -> None:
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    # places are unique within a session, as retrieval gives them
    assert ids("a b?", shuffled) == ids("a b?", candidates)


def test_a_word_of_the_same_meaning_counts_but_less_than_the_word_itself() -> None:
    found = ids(
        "job",
        [
            candidate(1, session=1, place=0),
            candidate(2, session=2, place=0, related={"job": 0.6}),
            candidate(3, session=3, place=0, terms={"job": 1}),
        ],
    )
    assert found == [3, 2, 1]


def test_words_of_the_same_meaning_can_be_switched_off() -> None:
    candidates = [candidate(1, session=1, place=0), candidate(2, session=2, place=0, related={"job": 0.6})]
    statistics = Statistics(messages=100, mean_length=5, document_frequency={"job": 0})
    on, off = (
        rank.rank(ask("job"), candidates, statistics, Weights(related=weight))[0] for weight in (1.6, 0.0)
    )
    assert on.parts["related"] > 0
    assert on.parts["words"] == 0
    assert off.score == 0


def test_of_two_sessions_with_hits_alike_the_one_with_more_of_the_question_comes_first() -> None:
    weights = Weights(decay=0.0, decay_back=0.0)
    candidates = [
        candidate(1, session=7, place=0, terms={"boiler": 1}),
        candidate(2, session=8, place=0, terms={"boiler": 1}),
        *(candidate(n, session=8, place=n, terms={"sensor": 1}) for n in range(3, 5)),
        *(candidate(n, session=7, place=n) for n in range(5, 7)),
        *(candidate(n, session=n, place=0) for n in range(20, 30)),
    ]
    statistics = Statistics(messages=100, mean_length=5, document_frequency={"boiler": 2, "sensor": 50})
    best = rank.rank_sessions(rank.rank(ask("boiler sensor"), candidates, statistics, weights))
    assert [session for session, _ in best[:2]] == [8, 7]
    assert best[0][1].parts["session_words"] > best[1][1].parts["session_words"] > 0
