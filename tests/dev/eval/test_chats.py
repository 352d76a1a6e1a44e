"""The evaluation over chats: how it counts, what it is compared with, and how good the shipped path has to stay."""

from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ops.dev import shipped
from ops.dev.eval import measures, run_chats, samples
from ops.dev.eval.asking import Asking
from ops.dev.eval.measures import OURS, Answered, QuestionFigures, WayResult, measured
from ops.dev.eval.plain import PlainBm25, PlainVectors, plain_context, ranked, spread
from ops.dev.eval.question_messages import asked_as_message
from ops.dev.eval.report import chats_tables
from ops.dev.eval.samples import SampleQuestion
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.onnx.onnx import is_installed
from pipeline.text.tokens import estimate
from schemas.errors import InvalidInput
from schemas.messages import ChatIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings
from tests.conftest import message
from tests.dev.eval import tiny

SETTINGS = Settings(_env_file=None, embedding_provider="deterministic")


def evaluate(folder: Path, *, asking: Asking = Asking(), **options: Any) -> dict[str, Any]:  # noqa: B008 - frozen
    options |= {"folder": folder, "asking": asking}
    return run_chats.chats(SETTINGS, run_chats.Options(**options), lambda _: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("chats"))


@pytest.fixture(scope="module")
def everything(folder: Path) -> dict[str, Any]:
    return evaluate(folder)


def test_every_question_is_counted_once_and_those_without_an_answer_apart(everything: dict[str, Any]) -> None:
    assert everything["chats"] == list(tiny.CHATS)
    assert everything["questions"] == 10
    for group in ("by_chat", "by_kind", "by_chat_kind", "by_language"):
        assert sum(part["questions"] for part in everything[group].values()) == 10, group
    assert everything["by_language"]["german"]["questions"] == 2
    assert len(everything["details"]) == 13


def test_in_chats_of_six_messages_everything_is_found_and_shown(everything: dict[str, Any]) -> None:
    ours = everything["all"][OURS]
    assert ours["turn"]["10"] == ours["session"]["5"] == 1
    assert ours["coverage"] == {"800": 1, "2000": 1}
    # and what may lead astray is shown as well: there is room for all of it
    assert ours["unexpected"]["2000"] == ours["unexpected_of"] == 2


def test_plain_search_is_counted_over_the_same_questions(everything: dict[str, Any]) -> None:
    assert set(everything["all"]) == {OURS, "bm25", "vectors", "sum"}
    plain = everything["all"]
    # every message has a vector, and only some have a word of the question
    assert plain["vectors"]["turn"]["10"] == 1
    assert plain["bm25"]["turn"]["20"] < 1


def test_a_part_and_single_chats_are_chosen_and_unknown_ones_refused(folder: Path) -> None:
    by_words = evaluate(folder, part="fit", asking=Asking(words_only=True))
    assert by_words["chats"] == ["flat", "office"]
    assert set(by_words["all"]) == {OURS, "bm25"}
    with pytest.raises(InvalidInput, match=r"no chat 'raft': see flat, office"):
        evaluate(folder, only=("raft",))
    with pytest.raises(InvalidInput, match="profile must be one of balanced"):
        evaluate(folder, asking=Asking(profile="balance"))


def test_another_profile_is_judged_with_its_own_parameters(folder: Path) -> None:
    parameters = ContextParameters(history_tokens=0, memories=0)
    for profile, covered in (("balanced", 1), ("ask", 0)):
        asking = Asking(profile=profile, parameters=parameters)
        tables = evaluate(folder, only=("boat",), asking=asking)
        assert tables["all"][OURS]["coverage"]["2000"] == covered


def test_a_question_that_was_put_to_a_bot_is_no_evidence_and_leaves_nothing_behind(folder: Path) -> None:
    sample = samples.read_chat("flat", folder)
    question = asked_as_message(sample.chat, sample.messages, "where's the bicycle pump")
    with shipped.temporary(SETTINGS) as backscroll, backscroll.superuser() as superuser:
        backscroll.fill(sample.chat, sample.messages, lambda _: None)
        statement = "SELECT count(*), sum(message_count) FROM conversation_sessions WHERE status <> 'merged'"
        before = superuser.execute(statement).fetchone()
        with backscroll.put(sample.chat, question):
            assert superuser.execute(statement).fetchone() != before
            explain = backscroll.ask(sample.chat.chat_id, "where's the bicycle pump", 800).explain
            assert explain is not None
            assert explain.messages[-1].external_id == question.external_id
        assert superuser.execute(statement).fetchone() == before


def test_what_contexts_show_is_counted_by_budget(everything: dict[str, Any]) -> None:
    found = everything["precision"]["all"]
    assert list(found) == ["800", "2000"]
    ours = found["2000"]
    assert 0 < ours["tokens"] < 1
    # there is room for all of a tiny chat as recent talk
    assert ours["sessions"]["shown"] == 0
    assert ours["tokens_without_history"] is None
    assert ours["without_answer"]["questions"] == 3
    office = everything["precision"]["by_chat"]["office"]["2000"]
    assert office["without_answer"] == {"questions": 0, "used_tokens": None}
    assert everything["precision"]["by_kind"]["unanswerable"]["questions"] == 0


def test_people_get_small_tables(everything: dict[str, Any]) -> None:
    console = Console(file=StringIO(), width=160)
    console.print(*chats_tables(everything))
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    for name in (*tiny.CHATS, "german", "reply", "untuned", "R@10", "fell back"):
        assert name in printed


def case(*evidence: str, tokens: tuple[str, ...] = (), unexpected: tuple[str, ...] = ()) -> SampleQuestion:
    return SampleQuestion(
        question="?",
        kind="fact" if evidence else "unanswerable",
        evidence=evidence,
        tokens=tokens,
        unexpected=unexpected,
        answer="",
    )


def found(*ids: str, shown: str = "") -> WayResult:
    sessions = list(dict.fromkeys(1 if each.islower() else 2 for each in ids))
    return WayResult(ranked=ids, sessions=sessions, shown={800: shown})


def answered(asked: SampleQuestion, result: WayResult) -> Answered:
    """Messages with a small letter are in one session, all others in another."""
    session_of = {each: 1 if each.islower() else 2 for each in (*asked.evidence, *result.ranked)}
    figures = measured(asked, session_of, result)
    return Answered(
        chat="c",
        chat_kind="direct",
        language="english",
        kind=asked.kind,
        question="?",
        by_way={"way": figures},
    )


def test_shares_are_means_over_questions() -> None:
    # Given one question whose two pieces of evidence come third and eleventh, and one that is found at once
    asked = case("a", "b", tokens=("red", "deep\nblue"), unexpected=("green",))
    first = answered(asked, found("X", "y", "a", *"12345678", "b", shown="red, and green"))
    second = answered(case("c", tokens=("White",)), found("c", "D", "E", shown="White"))
    # When they are counted
    counts = measures.by_way([first, second])["way"]
    # Then every share is the mean of the two
    assert counts["turn"] == {"5": 0.75, "10": 0.75, "20": 1}
    assert counts["session"] == {"3": 1, "5": 1, "10": 1}
    assert counts["coverage"] == {"800": 0.75}
    assert (counts["unexpected"], counts["unexpected_of"]) == ({"800": 1}, 1)


def test_a_piece_is_shown_whatever_the_white_space() -> None:
    asked = case("a", tokens=("deep\n  blue",))
    assert measured(asked, {"a": 1}, found("a", shown="a deep blue sea")).coverage == {800: 1}


@given(st.lists(st.floats(-5, 5), max_size=8))
def test_spread_scores_are_from_0_to_1_in_the_same_order(scores: list[float]) -> None:
    between = spread(np.array(scores, dtype=np.float64))
    assert all(0 <= each <= 1 for each in between)
    order = sorted(range(len(scores)), key=lambda i: scores[i])
    assert all(between[a] <= between[b] for a, b in pairwise(order))


def words(texts: Any) -> list[dict[str, int]]:
    return [{word: text.split().count(word) for word in text.split()} for text in texts]


def test_plain_bm25_prefers_rare_words_and_short_texts() -> None:
    texts = ["the boiler", "the boiler on the roof of the house", "the house", "the end"]
    scores = PlainBm25(words, texts).scores("the boiler").tolist()
    assert scores[0] > scores[1] > scores[2] == scores[3] > 0
    assert PlainBm25(words, texts).scores("nothing").tolist() == [0] * 4


def test_plain_search_shows_the_nearest_that_fit() -> None:
    said = [
        message(n, each)
        for n, each in enumerate(["the boiler shows E41", "good morning", "the boiler room key"])
    ]
    vectors = PlainVectors(DeterministicEmbedder(), [each.content for each in said])
    best = ranked(said, vectors.scores("what does the boiler show, E41?"))
    assert [each.content for each in best] == [said[0].content, said[2].content, said[1].content]
    shown = plain_context(best, budget=10)
    assert shown.endswith(said[0].content)
    assert estimate(shown) <= 10


def test_of_equal_messages_the_later_is_first_and_those_without_a_word_are_not_found() -> None:
    said = [message(1), message(2), message(3)]
    assert ranked(said, np.array([1.0, 1.0, 0.0]), above=0.0) == [said[1], said[0]]


def test_a_question_is_put_to_the_bot_by_somebody_it_does_not_name() -> None:
    said = [
        message(n, sender_id=f"t:{who}", sender_name=who, role="assistant" if who == "Pip" else "user")
        for n, who in enumerate(["Ana", "Ana", "Ana", "Rui", "Pip", "Pip", "Pip", "Pip"])
    ]
    group, direct = (ChatIn(chat_id="c", kind=kind) for kind in ("group", "direct"))
    put = asked_as_message(group, said, "what did Ana say?")
    assert (put.sender_name, put.content, put.role) == ("Rui", "@Pip what did Ana say?", "user")
    assert put.sent_at > said[-1].sent_at
    assert asked_as_message(direct, said, "well?").content == "well?"
    assert asked_as_message(direct, said, "well?").sender_name == "Ana"


# Guards against a step back, not aims: a few points below what the hashed words of the deterministic embedder give on
# a chat that ships, and what the bundled model gives (behind each figure).
LEAST = {"turn": {"5": 0.47, "10": 0.54}, "coverage": {"800": 0.63, "2000": 0.75}}  # .52 .58 .67 .78
LEAST_LOCAL = {"turn": {"5": 0.69, "10": 0.78}, "coverage": {"800": 0.81, "2000": 0.92}}


@pytest.mark.parametrize(
    ("provider", "least"),
    [
        ("deterministic", LEAST),
        pytest.param(
            "onnx",
            LEAST_LOCAL,
            marks=[
                pytest.mark.model,
                pytest.mark.skipif(not is_installed(), reason="the extra `local` is not installed"),
            ],
        ),
    ],
)
def test_as_much_is_found_as_before_and_more_than_by_plain_search(
    provider: str, least: dict[str, dict[str, float]]
) -> None:
    settings = SETTINGS if provider == "deterministic" else Settings(_env_file=None)
    options = run_chats.Options(only=("support_desk",))
    ways = run_chats.chats(settings, options, lambda _: None)["all"]
    ours = ways.pop(OURS)
    for level, shares in least.items():
        assert all(ours[level][k] >= share for k, share in shares.items()), ours
    for way, plain in ways.items():
        assert ours["turn"]["10"] > plain["turn"]["10"], way


def test_figures_of_a_question_without_an_answer_have_no_shares() -> None:
    figures = measured(case(), {}, found("a", shown="x"))
    assert figures == QuestionFigures(turn={}, session={}, coverage={}, unexpected={800: 0}, unexpected_of=0)
