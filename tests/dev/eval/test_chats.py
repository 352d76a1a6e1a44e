"""The evaluation over chats: how it counts, what it is compared with, and how good the shipped path has to stay."""

from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ops.dev import shipped
from ops.dev.eval import measures, samples
from ops.dev.eval.asking import Asking, asked_as_message, evaluated
from ops.dev.eval.measures import OURS, Row, WayResult, measured
from ops.dev.eval.plain import bm25
from ops.dev.eval.report import chats_tables
from ops.dev.eval.samples import SampleQuestion
from pipeline.clients.onnx.onnx import is_installed
from schemas.errors import InvalidInput
from schemas.messages import ChatIn
from schemas.payloads import ContextParameters
from schemas.settings import Settings
from tests.conftest import message
from tests.dev.eval import tiny

SETTINGS = Settings(_env_file=None, embedding_provider="deterministic")


def evaluate(folder: Path, *, asking: Asking = Asking(), **options: Any) -> dict[str, Any]:  # noqa: B008 - frozen
    chosen = list(samples.chosen(**{"part": "all", "folder": folder, **options}))
    return evaluated(SETTINGS, chosen, asking, lambda _: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("chats"))


@pytest.fixture(scope="module")
def everything(folder: Path) -> dict[str, Any]:
    return evaluate(folder)


def test_every_question_is_counted_once_and_those_without_an_answer_apart(everything: dict[str, Any]) -> None:
    assert everything["chats"] == list(tiny.CHATS)
    assert everything["questions"] == 10
    for group in ("by_chat", "by_kind"):
        assert sum(part["questions"] for part in everything[group].values()) == 10, group
    assert everything["by_chat"]["boot"]["questions"] == 2
    assert len(everything["details"]) == 13


def test_in_chats_of_six_messages_everything_is_found_and_shown(everything: dict[str, Any]) -> None:
    ours = everything["all"][OURS]
    assert ours["R@10"] == ours["S@5"] == ours["C 800"] == ours["C 2000"] == 1
    # and what may lead astray is shown as well: there is room for all of it
    assert ours["astray 2000"] == ours["astray of"] == 2


def test_plain_search_is_counted_over_the_same_questions(everything: dict[str, Any]) -> None:
    assert set(everything["all"]) == {OURS, "bm25", "vectors", "sum"}
    plain = everything["all"]
    # every message has a vector, and only some have a word of the question
    assert plain["vectors"]["R@10"] == 1
    assert plain["bm25"]["R@20"] < 1


def test_a_part_and_single_chats_are_chosen_and_unknown_ones_refused(folder: Path) -> None:
    alone = evaluate(folder, part="fit", asking=Asking(plain=False))
    assert alone["chats"] == ["flat", "office"]
    assert set(alone["all"]) == {OURS}
    with pytest.raises(InvalidInput, match=r"no chat 'raft': see flat, office"):
        evaluate(folder, only=("raft",))
    with pytest.raises(InvalidInput, match="profile must be one of balanced"):
        evaluate(folder, asking=Asking(profile="balance"))


def test_another_profile_is_judged_with_its_own_parameters(folder: Path) -> None:
    # what `balanced` finds all of
    asking = Asking(profile="ask", parameters=ContextParameters(history_tokens=0, memories=0), plain=False)
    assert evaluate(folder, only=("boat",), asking=asking)["all"][OURS]["C 2000"] == 0


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


def test_people_get_small_tables(everything: dict[str, Any]) -> None:
    console = Console(file=StringIO(), width=160)
    console.print(*chats_tables(everything))
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    for name in (*tiny.CHATS, "reply", "untuned", "R@10", "fell back"):
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


def row(asked: SampleQuestion, result: WayResult) -> Row:
    """Messages with a small letter are in one session, all others in another."""
    session_of = {each: 1 if each.islower() else 2 for each in (*asked.evidence, *result.ranked)}
    return measured(asked, session_of, result)


def test_shares_are_means_over_questions_with_an_answer_and_what_leads_astray_is_counted() -> None:
    # Given a question whose two pieces of evidence come third and eleventh, one that is found at once, and one without
    asked = case("a", "b", tokens=("red", "deep\nblue"), unexpected=("green",))
    first = row(asked, found("X", "y", "a", *"12345678", "b", shown="red, and green"))
    second = row(case("c", tokens=("White",)), found("c", "D", "E", shown="White"))
    third = row(case(unexpected=("grey",)), found("a", shown="grey"))
    # When they are counted
    counts = measures.means([first, second, third])
    # Then every share is the mean of the two
    assert [counts[f"R@{k}"] for k in (5, 10, 20)] == [0.75, 0.75, 1]
    assert [counts[f"S@{k}"] for k in (3, 5, 10)] == [1, 1, 1]
    assert counts["C 800"] == 0.75
    assert (counts["astray 800"], counts["astray of"]) == (2, 2)


def test_plain_bm25_prefers_rare_words_and_short_texts() -> None:
    texts = ["the boiler", "the boiler on the roof of the house", "the house", "the end"]
    words = [Counter(text.split()) for text in texts]
    scores = bm25(words, ["the", "boiler"]).tolist()
    assert scores[0] > scores[1] > scores[2] == scores[3] > 0
    assert bm25(words, ["nothing"]).tolist() == [0] * 4


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


# Guards against a step back, not aims: a few points below what the bundled model gives on a chat that ships.
LEAST = {"R@5": 0.69, "R@10": 0.78, "C 800": 0.81, "C 2000": 0.92}


@pytest.mark.model
@pytest.mark.skipif(not is_installed(), reason="the extra `local` is not installed")
def test_as_much_is_found_as_before_and_more_than_by_plain_search() -> None:
    chosen = samples.chosen("all", ("support_desk",))
    ways = evaluated(Settings(_env_file=None), chosen, Asking(), lambda _: None)["all"]
    ours = ways.pop(OURS)
    assert all(ours[name] >= share for name, share in LEAST.items()), ours
    for way, plain in ways.items():
        assert ours["R@10"] > plain["R@10"], way
