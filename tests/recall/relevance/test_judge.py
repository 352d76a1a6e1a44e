"""The judge of relevance: it knows when a chat does not know, and a line's worth follows from that."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall import relevance
from pipeline.recall.find.candidates import CandidateSet, Statistics
from pipeline.recall.rank.rank import Scored
from pipeline.recall.relevance import LIMIT, MIN_MESSAGES, NEAREST, WEIGHT_LIMITS, By, Evidence, fitted
from pipeline.recall.request import QueryTerms
from pipeline.text.excerpt import Wanted
from schemas.vectors import Calibration, EmbeddingSpace
from tests.recall.found import hit, requested

CHAT = Statistics(
    messages=1000,
    mean_length=8,
    document_frequency={"boiler": 3, "show": 40, "caldav": 0},
    mean_cosine=0.1,
)
WAYS: tuple[By, ...] = ("both", "words", "meaning")
SCORES = st.lists(st.floats(0, 10), max_size=30)
TEXTS = st.lists(
    st.text(max_size=60) | st.sampled_from(["Запри бойлер", "ボイラーが壊れた", "boiler E41"]), max_size=8
)


def found(*held: str, cosine: float = 0.1) -> list[Scored]:
    """Messages that hold these words each, as like the question as this; the best one first."""
    return [
        hit(
            number,
            words,
            3.0 - number / 10,
            terms=dict.fromkeys(words.split(), 1),
            cosine=cosine,
            parts={"words": 1.0, "session_words": len(words.split()) / 3},
        )
        for number, words in enumerate(held)
    ]


def ranked(scores: list[float]) -> list[Scored]:
    return [hit(number, "hm", score) for number, score in enumerate(sorted(scores, reverse=True))]


@pytest.mark.parametrize("by", WAYS)
def test_the_better_the_best_messages_match_the_likelier_the_chat_knows(by: By) -> None:
    pairs = [
        (found("boiler show caldav", cosine=0.7), found("show", cosine=0.1)),
        (found("boiler caldav", cosine=0.5), found("boiler", cosine=0.2)),
    ]
    for better, worse in pairs:
        assert (
            relevance.evidence(better, CHAT, by).probability > relevance.evidence(worse, CHAT, by).probability
        )


@pytest.mark.parametrize("by", WAYS)
def test_a_chat_without_anything_like_it_does_not_know_and_says_what_decided(by: By) -> None:
    evidence = relevance.evidence(found("", "", cosine=0.05), CHAT, by)
    assert evidence.level == "none"
    assert set(evidence.parts) == fitted("question", by).weights.keys()


def test_a_vector_of_zeros_decides_nothing() -> None:
    zeros, known = found("boiler", cosine=math.nan), found("boiler", cosine=CHAT.mean_cosine)
    assert relevance.evidence(zeros, CHAT, "both") == relevance.evidence(known, CHAT, "both")


def test_it_is_never_denied_where_nobody_can_tell() -> None:
    nothing = found("", cosine=0.05)
    few = relevance.evidence(nothing, replace(CHAT, messages=MIN_MESSAGES - 1), "both")
    waits = relevance.evidence(nothing, CHAT, "both", "messages wait for their vectors")
    assert (few.level, waits.level) == ("weak", "weak")
    assert f"has {MIN_MESSAGES - 1} messages" in few.unsure
    assert waits.unsure == "messages wait for their vectors"


@pytest.mark.parametrize(
    ("question", "levels"),
    [("What does the boiler show?", {"weak", "strong"}), ("Was zeigt der Kessel an?", {"none"})],
)
def test_a_question_in_another_language_than_the_chat_is_never_denied(
    question: str, levels: set[str]
) -> None:
    # Given a German chat in which nothing is like the question, compared by a model that knows both languages
    space = EmbeddingSpace(
        provider="onnx", model="multilingual-e5-small", dimensions=2, questions=Calibration(slope=1, height=0)
    )
    terms = QueryTerms(content=question, lexemes=["kessel"], embedded=(space, [1.0, 0.0]))
    request = requested(question, language="german", messages=1000, queries=[terms])
    nothing = CandidateSet(
        candidates=[],
        statistics=CHAT,
        arms={},
        vector_search="exact",
        rows_compared=0,
        keyword_search="exact",
    )
    evidence = relevance.evidence_of(request, found("", cosine=0.05), nothing)
    assert evidence is not None
    assert evidence.level in levels
    # nor is any while something waits that may answer it, or at a time of which nobody counted the messages
    waiting = replace(request, snapshot=replace(request.snapshot, waits=True))
    for unsure in (waiting, replace(request, as_of=request.now)):
        judged = relevance.evidence_of(unsure, found("", cosine=0.05), nothing)
        assert judged is not None
        assert judged.level != "none"


@given(SCORES)
def test_without_evidence_at_most_the_nearest_are_shown(scores: list[float]) -> None:
    worths = relevance.worths(ranked(scores), Evidence(level="none", probability=0.1, share=0.2))
    distinct = len(set(scores)) == len(scores)
    assert not distinct or sum(value >= LIMIT for value in worths) <= NEAREST


@given(SCORES, st.floats(0, 1), st.floats(0, 1))
def test_the_likelier_an_answer_the_more_is_shown(scores: list[float], one: float, other: float) -> None:
    less, more = sorted((one, other))
    shown = [
        relevance.worths(ranked(scores), Evidence(level="weak", probability=0.5, share=share))
        for share in (less, more)
    ]
    assert all(low <= high for low, high in zip(*shown, strict=True))


def test_an_unlikely_answer_takes_from_every_line_and_an_unsure_one_from_none() -> None:
    weak = Evidence(level="weak", probability=0.3, share=0.5)
    assert relevance.worths(ranked([2.0, 2.0, 2.0]), weak) == [0.5, 0.5, 0.5]
    unsure = relevance.evidence(found("", cosine=0.05), CHAT, "both", "messages wait for their vectors")
    assert unsure.share == 1.0 > relevance.evidence(found("", cosine=0.05), CHAT, "both").share


def test_words_of_another_language_set_no_scale() -> None:
    # Given messages that share a name with the question, and one that is about it
    named = [hit(number, "Lena", 2.0, parts={"words": 1.8, "meaning": 0.2}) for number in range(3)]
    about = hit(3, "die Heizung ist kaputt", 1.0, parts={"meaning": 1.0})
    assert (
        relevance.worths([*named, about], None, "meaning")[-1]
        == 1.0
        > relevance.worths([*named, about], None)[-1]
    )


def test_what_has_the_very_words_does_not_hide_the_rest() -> None:
    exact = hit(1, "v2.4 is revoked", 4.0, parts={"words": 1.0, "exact": 3.0})
    rest = [hit(number, "the fix", 1.0, parts={"words": 1.0}) for number in (2, 3)]
    assert min(relevance.worths([exact, *rest], None)) == 1.0
    noise = hit(4, "what is fixed?", 9.0, noise=True)
    assert relevance.worths([noise, *rest], None) == [0.0, 1.0, 1.0]


@given(TEXTS, st.data())
def test_each_memory_is_judged_the_same_in_whatever_order_they_were_found(
    texts: list[str], data: st.DataObject
) -> None:
    cosines = data.draw(
        st.lists(st.none() | st.just(math.nan) | st.floats(-1, 1), min_size=len(texts), max_size=len(texts))
    )
    order = data.draw(st.permutations(range(len(texts))))
    wanted = Wanted.of("what does the boiler show?", "english")
    for by in WAYS:
        first = relevance.texts(texts, cosines, wanted, by)
        again = relevance.texts([texts[i] for i in order], [cosines[i] for i in order], wanted, by)
        assert np.all((first >= 0) & (first <= 1))
        assert np.allclose(first[list(order)], again)


@pytest.mark.parametrize("by", WAYS)
def test_a_memory_that_answers_is_likelier_than_one_that_does_not(by: By) -> None:
    wanted = Wanted.of("what does the boiler show?", "english")
    texts = ["The boiler shows E41", "The marina has a boat", "Tea is at five"]
    right, *others = relevance.texts(texts, [0.6, 0.05, 0.0], wanted, by)
    assert right >= LIMIT > max(others)
    assert (
        relevance.level_of_text(float(right), by) != "none" == relevance.level_of_text(float(max(others)), by)
    )


def test_a_word_that_few_texts_hold_counts_more_than_one_of_all() -> None:
    wanted = Wanted.of("does the boiler leak?", "english")
    texts = ["a leak", "the boiler", "my boiler", "our boiler"]
    coverage = relevance.of_texts(texts, [None] * 4, wanted, [False] * 4)["coverage"]
    assert coverage[0] > coverage[1] == coverage[3]


def test_every_weight_is_of_a_signal_that_exists() -> None:
    question = relevance.of_question(found("boiler"), CHAT)
    text = relevance.of_texts(["boiler"], [0.5], Wanted.of("boiler", "english"), [False])
    for by in WAYS:
        assert fitted("question", by).weights.keys() <= question.keys()
        assert fitted("text", by).weights.keys() <= text.keys()
    assert WEIGHT_LIMITS[0] == "constant"
