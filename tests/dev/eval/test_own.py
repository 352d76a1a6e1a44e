"""The evaluation over the sample chats: how it counts, and how good the shipped path has to stay."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ops.dev.eval.own import (
    KS,
    WAYS,
    PlainSearch,
    QuestionResult,
    WayResult,
    counted,
    plain_context,
    tables,
)
from ops.dev.eval.report import own_tables
from ops.dev.eval.samples import NAMES, SampleQuestion
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.onnx import is_installed
from pipeline.text.tokens import estimate
from tests.conftest import message
from tests.ops.running import backscroll

# Guards against a step back, not aims: a few points below what the hashed words of the deterministic embedder
# give today (behind each figure). The local model gives more.
LEAST = {
    "recall": {"3": 0.39, "5": 0.49, "10": 0.58},  # .43 .53 .63
    "top3_relevant": 0.48,  # .53
    "complete": 0.69,  # .73: 141 of 192
}
LEAST_COMPLETE = {
    "harbour_house": 45,
    "support_desk": 31,
    "coding_sessions": 37,
    "classic": 16,
}  # 49 34 41 17
# Without the events that a question counts from it would be .21, and 6 of 17.
LEAST_OF_EVENTS = 0.38  # .45
LEAST_COMPLETE_OF_EVENTS = 9  # 11
# A context of 800 tokens is the more complete for showing much, outdated things too, which stand with their
# dates beside what is true: 44 of 86. It must not become a mere heap.
MOST_NOISE = 0.58
MOST_CLASSIC_NOISE = 0.36  # 10 of 33


# With the bundled model. More than 80 % have evidence in one of the first three sessions, which a search narrows to.
LEAST_LOCAL = {
    "recall": {"3": 0.52, "5": 0.62, "10": 0.73},  # .56 .67 .78
    "top3_sessions": 0.8,  # .88
    "complete": 0.86,  # .89: 172 of 192
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The command's figures over all samples."""
    run = backscroll(
        *("dev", "eval", "own", "--json"),
        cwd=tmp_path_factory.mktemp("evaluation"),
        BACKSCROLL_EMBEDDING_PROVIDER="deterministic",
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_as_much_is_found_and_shown_as_before(measured: Any) -> None:
    ours = measured["all"]["backscroll"]
    assert all(ours["recall"][k] >= least for k, least in LEAST["recall"].items()), ours
    assert ours["top3_relevant"] >= LEAST["top3_relevant"], ours
    assert ours["complete"] >= LEAST["complete"], ours
    for chat, least in LEAST_COMPLETE.items():
        assert measured["by_chat"][chat]["backscroll"]["complete_count"] >= least, chat


@pytest.mark.model
@pytest.mark.skipif(not is_installed(), reason="the extra `local` is not installed")
def test_with_the_bundled_model_as_much_is_found_as_the_readme_says(tmp_path: Path) -> None:
    run = backscroll("dev", "eval", "own", "--json", cwd=tmp_path, seconds=480)
    assert run.returncode == 0, run.stderr
    ours = json.loads(run.stdout)["all"]["backscroll"]
    assert all(ours["recall"][k] >= least for k, least in LEAST_LOCAL["recall"].items()), ours
    assert ours["top3_sessions"] > LEAST_LOCAL["top3_sessions"], ours
    assert ours["complete"] >= LEAST_LOCAL["complete"], ours


def test_times_that_count_from_an_event_are_found(measured: Any) -> None:
    ours = measured["by_kind"]["event"]["backscroll"]
    assert ours["recall"]["10"] >= LEAST_OF_EVENTS
    assert ours["complete_count"] >= LEAST_COMPLETE_OF_EVENTS


def test_no_more_noise_is_shown_than_before(measured: Any) -> None:
    assert measured["all"]["backscroll"]["noise"] <= MOST_NOISE
    classic = measured["by_chat"]["classic"]
    assert classic["backscroll"]["noise"] <= MOST_CLASSIC_NOISE
    assert classic["backscroll"]["noise"] < classic["plain"]["noise"]


def test_plain_vector_search_is_beaten_in_every_chat(measured: Any) -> None:
    assert set(measured["by_chat"]) == set(NAMES)
    for chat, part in measured["by_chat"].items():
        ours, theirs = part["backscroll"], part["plain"]
        for k in map(str, KS):
            assert ours["recall"][k] > theirs["recall"][k], (chat, k)
        assert ours["top3_relevant"] > theirs["top3_relevant"], chat
        assert ours["complete_count"] > theirs["complete_count"], chat


def test_scores_tell_questions_without_an_answer_better_than_chance(measured: Any) -> None:
    ours = measured["unanswerable"]["backscroll"]
    assert ours["questions"] == 15
    assert ours["told_apart"] >= 0.56  # .62
    assert ours["told_apart"] > measured["unanswerable"]["plain"]["told_apart"]


def test_people_get_tables_of_every_chat_and_kind(measured: Any) -> None:
    console = Console(file=StringIO(), width=160)
    console.print(*own_tables(measured))
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    for name in (*NAMES, "decision_reversed", "paraphrase", "R@10", "noise", "told apart"):
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


def outcome(asked: SampleQuestion, *ranked: str, score: float = 1, shown: str = "") -> QuestionResult:
    """Both ways found the same; messages with a small letter lie in one session, all others in another."""
    sessions = {hit: 1 if hit.islower() else 2 for hit in (*ranked, *asked.evidence)}
    ordered = [sessions[hit] for hit in dict.fromkeys(ranked)]
    found = WayResult(ranked=ranked, sessions=ordered, top_score=score, shown=shown)
    return QuestionResult(chat="c", case=asked, session_of=sessions, found=dict.fromkeys(WAYS, found))


def test_shares_are_means_over_questions() -> None:
    # Given one question whose two pieces come third and eleventh, and one that is found at once
    asked = case("a", "b", tokens=("red", "blue"), unexpected=("green",))
    first = outcome(asked, "X", "y", "a", *"12345678", "b", shown="red, and green")
    second = outcome(case("c", tokens=("White",)), "c", "D", "E", shown="White")
    # When they are counted
    counts = counted([first, second], "plain")
    # Then every share is the mean of the two
    assert counts["recall"] == {"3": 0.75, "5": 0.75, "10": 0.75}
    assert (counts["top3_relevant"], counts["top3_precision"], counts["top3_on_topic"]) == (1, 0.75, 0.5)
    assert counts["top3_sessions"] == 1
    assert (counts["complete"], counts["complete_count"]) == (0.5, 1)
    assert (counts["noise"], counts["noise_count"], counts["noise_of"]) == (1, 1, 1)


def test_without_unexpected_pieces_noise_is_unknown_rather_than_none() -> None:
    assert counted([outcome(case("a"))], "plain")["noise"] is None


def test_each_question_says_what_went_wrong_with_it() -> None:
    asked = case("a", tokens=("red", "blue"), unexpected=("green",))
    (one,) = tables([outcome(asked, "b", "a", shown="red, green"), outcome(case())])["questions"]
    assert one["backscroll"] == {"first": 2, "missing": ["blue"], "noise": ["green"]}


def test_told_apart_is_the_chance_that_an_answerable_question_scores_higher() -> None:
    having = [outcome(case("a"), score=score) for score in (3, 1)]
    without = [outcome(case(), score=score) for score in (1, 2)]
    table = tables([*having, *without])
    # 3 beats both, 1 ties with one and loses to the other
    assert table["unanswerable"]["plain"]["told_apart"] == pytest.approx(2.5 / 4)
    assert table["all"]["questions"] == 2


def test_plain_search_takes_the_nearest_that_fit() -> None:
    said = ["the boiler shows E41", "good morning", "who has the key of the boiler room?"]
    search = PlainSearch(DeterministicEmbedder(), [message(n, each) for n, each in enumerate(said)])
    ranked = search.ranked("what does the boiler show, E41?")
    assert [hit.content for hit, _ in ranked] == [said[0], said[2], said[1]]
    best = plain_context(ranked, budget=10)
    assert best.endswith(said[0])
    assert estimate(best) <= 10
