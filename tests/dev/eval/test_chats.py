"""The evaluation over chats: how it counts, what it is compared with, and how good the shipped path has to stay."""

import json
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ops.dev.eval import chat_measures, run_chats
from ops.dev.eval.baselines import PlainBm25, PlainVectors, plain_context, ranked, spread
from ops.dev.eval.chat_measures import BY_WORDS, OURS, Answered, QuestionFigures, WayResult, measured
from ops.dev.eval.question_messages import asked_as_message
from ops.dev.eval.report import chats_tables
from ops.dev.eval.samples import NAMES, SampleQuestion
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.onnx import is_installed
from pipeline.text.tokens import estimate
from schemas.errors import InvalidInput
from schemas.messages import ChatIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings
from tests.conftest import message
from tests.dev.eval import tiny
from tests.ops.running import backscroll

SETTINGS = Settings(_env_file=None, embedding_provider="deterministic")


def evaluate(folder: Path, **options: Any) -> dict[str, Any]:
    return run_chats.chats(SETTINGS, run_chats.Options(folder=folder, **options), lambda _: None)


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
    assert everything["unanswerable"][OURS]["questions"] == 3
    assert len(everything["details"]) == 13


def test_in_chats_of_six_messages_everything_is_found_and_shown(everything: dict[str, Any]) -> None:
    ours = everything["all"][OURS]
    assert ours["turn"]["10"] == ours["session"]["5"] == 1
    assert ours["coverage"] == ours["complete"] == {"800": 1, "2000": 1}
    # and what may lead astray is shown as well: there is room for all of it
    assert ours["unexpected"]["2000"] == ours["unexpected_of"] == 2


def test_plain_search_is_counted_over_the_same_questions(everything: dict[str, Any]) -> None:
    assert set(everything["all"]) == {OURS, "bm25", "vectors", "sum"}
    plain = everything["all"]
    # every message has a vector, and only some have a word of the question
    assert plain["vectors"]["turn"]["10"] == 1
    assert plain["bm25"]["turn"]["20"] < 1


def test_translations_are_compared_with_their_original_also_by_words(everything: dict[str, Any]) -> None:
    (translation,) = everything["ratios"]
    assert translation == "boot"
    ratio = everything["ratios"]["boot"]
    assert ratio["of"] == "boat"
    assert ratio[OURS]["turn"]["10"] == 1
    assert ratio[BY_WORDS]["coverage"]["2000"] == 1


def test_a_part_and_single_chats_are_chosen_and_unknown_ones_refused(folder: Path) -> None:
    by_words = evaluate(folder, part="fit", words_only=True)
    assert by_words["chats"] == ["flat", "office"]
    assert set(by_words["all"]) == {BY_WORDS, "bm25"}
    assert not by_words["ratios"]
    with pytest.raises(InvalidInput, match=r"no chat 'raft': see flat, office"):
        evaluate(folder, only=("raft",))
    with pytest.raises(InvalidInput, match="profile must be one of balanced"):
        evaluate(folder, profile="balance")


def test_another_profile_is_judged_with_its_own_parameters(folder: Path) -> None:
    one = partial(
        evaluate, folder, only=("boat",), parameters=ContextParameters(history_tokens=0, memories=0)
    )
    assert one()["all"][OURS]["coverage"]["2000"] == 1
    assert one(profile="ask")["all"][OURS]["coverage"]["2000"] == 0


def test_what_contexts_show_is_counted_by_budget_for_each_way_that_builds_them(
    everything: dict[str, Any],
) -> None:
    found = everything["precision"]["all"]
    assert list(found) == [OURS]
    assert list(found[OURS]) == ["800", "2000"]
    ours = found[OURS]["2000"]
    assert 0 < ours["tokens"] < 1
    # there is room for all of a tiny chat as recent talk
    assert ours["headings"]["shown"] == 0
    assert ours["tokens_without_history"] is None
    assert ours["without_answer"]["questions"] == 3
    by_chat = everything["precision"]["by_chat"]
    assert set(by_chat["boot"]) == {"questions", OURS, BY_WORDS}
    assert by_chat["office"][OURS]["2000"]["without_answer"] == {"questions": 0, "used_tokens": None}
    assert everything["precision"]["by_kind"]["unanswerable"]["questions"] == 0


def test_people_get_small_tables(everything: dict[str, Any]) -> None:
    console = Console(file=StringIO(), width=120)
    console.print(*chats_tables(everything))
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    for name in (
        *tiny.CHATS,
        "german",
        "reply",
        "told apart",
        "boot / boat",
        "untuned",
        "R@10",
        "first line",
    ):
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


def found(*ids: str, shown: str = "", score: float = 1.0) -> WayResult:
    sessions = list(dict.fromkeys(1 if each.islower() else 2 for each in ids))
    return WayResult(ranked=ids, sessions=sessions, top_score=score, shown={800: shown})


def answered(asked: SampleQuestion, result: WayResult, chat: str = "c") -> Answered:
    """Messages with a small letter are in one session, all others in another."""
    session_of = {each: 1 if each.islower() else 2 for each in (*asked.evidence, *result.ranked)}
    figures = measured(asked, session_of, result)
    return Answered(
        chat=chat,
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
    counts = chat_measures.by_way([first, second])["way"]
    # Then every share is the mean of the two
    assert counts["turn"] == {"5": 0.75, "10": 0.75, "20": 1}
    assert counts["session"] == {"5": 1}
    assert (counts["coverage"], counts["complete"]) == ({"800": 0.75}, {"800": 0.5})
    assert (counts["unexpected"], counts["unexpected_of"]) == ({"800": 1}, 1)


def test_a_piece_is_shown_whatever_the_white_space() -> None:
    asked = case("a", tokens=("deep\n  blue",))
    assert measured(asked, {"a": 1}, found("a", shown="a deep blue sea")).coverage == {800: 1}


def test_told_apart_is_the_chance_that_an_answerable_question_scores_higher() -> None:
    having = [answered(case("a"), found("a", score=score)) for score in (3, 1)]
    without = [answered(case(), found("a", score=score)) for score in (1, 2)]
    # 3 beats both, 1 ties with one and loses to the other
    assert chat_measures.unanswerable([*having, *without])["way"] == {"questions": 2, "told_apart": 0.625}


def test_a_ratio_is_that_of_the_means_and_unknown_where_the_original_found_nothing() -> None:
    original = [answered(case("a"), found("a"), "one"), answered(case("a"), found("X", "a"), "one")]
    translated = [answered(case("a"), found("a"), "two"), answered(case("a"), found("X"), "two")]
    ratio = chat_measures.ratios([*original, *translated], {"two": "one"})["two"]
    assert ratio["way"]["turn"]["5"] == 0.5
    nothing = [answered(case("a"), found("X"), "one")]
    assert chat_measures.ratios([*nothing, *translated], {"two": "one"})["two"]["way"]["turn"]["5"] is None


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
# the chats that ship (behind each figure). The local model gives more.
LEAST = {"turn": {"5": 0.45, "10": 0.56}, "coverage": {"800": 0.62, "2000": 0.72}}  # .49 .61 .67 .76
# With the default model, in one of them: .73 .82 .84 .95.
LEAST_LOCAL = {"turn": {"5": 0.69, "10": 0.78}, "coverage": {"800": 0.81, "2000": 0.92}}


def shipped_chats(cwd: Path, *chosen: str, **settings: str) -> Any:
    names = [argument for name in chosen for argument in ("--only", name)]
    run = backscroll("dev", "eval", "chats", *names, "--json", cwd=cwd, seconds=850, **settings)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_in_the_shipped_chats_as_much_is_found_as_before_and_more_than_by_plain_search(
    tmp_path: Path,
) -> None:
    tables = shipped_chats(tmp_path, *NAMES, BACKSCROLL_EMBEDDING_PROVIDER="deterministic")
    ours = tables["all"][OURS]
    for level, shares in LEAST.items():
        assert all(ours[level][k] >= least for k, least in shares.items()), ours
    for chat, part in tables["by_chat"].items():
        for way in ("bm25", "vectors", "sum"):
            assert part[OURS]["turn"]["10"] > part[way]["turn"]["10"], (chat, way)
    told = tables["unanswerable"]
    assert told[OURS]["told_apart"] > 0.5


@pytest.mark.model
@pytest.mark.skipif(not is_installed(), reason="the extra `local` is not installed")
def test_with_the_bundled_model_as_much_is_found_as_before(tmp_path: Path) -> None:
    ways = shipped_chats(tmp_path, "support_desk")["all"]
    ours = ways.pop(OURS)
    for level, shares in LEAST_LOCAL.items():
        assert all(ours[level][k] >= least for k, least in shares.items()), ours
    # and it is more than by words, by meaning, or by both
    for way, plain in ways.items():
        assert ours["turn"]["10"] > plain["turn"]["10"], way


def test_figures_of_a_question_without_an_answer_have_no_shares() -> None:
    figures = measured(case(), {}, found("a", shown="x"))
    assert figures == QuestionFigures(
        turn={}, session={}, coverage={}, unexpected={800: 0}, unexpected_of=0, top_score=1.0
    )
