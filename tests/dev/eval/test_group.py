"""One large group made of small chats: what stays as it was, what is made up around it, and what is counted."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ops.dev.eval import group, run
from ops.dev.eval.group import Group
from ops.dev.eval.group_talk import APART, Member, talk
from ops.dev.eval.measures import OURS
from ops.dev.eval.report import group_tables
from ops.dev.eval.samples import SampleChat
from schemas.settings import Settings
from tests.dev.eval import tiny

BEGAN = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
MEMBERS = [Member(f"m:{n}", name) for n, name in enumerate(("Ana Reis", "Bo", "Cy", "Dee W", "Eve", "Fay"))]


@pytest.fixture(scope="module")
def samples() -> list[SampleChat]:
    return [group.read(name) for name in group.PARTS]


@pytest.fixture(scope="module")
def built(samples: list[SampleChat]) -> Group:
    return group.build(samples, 3000)


def test_the_scenes_hold_what_their_questions_ask_for(samples: list[SampleChat]) -> None:
    (scenes,) = (sample for sample in samples if sample.name == "group_scenes")
    assert len(scenes.cases) >= 12
    said = {message.external_id: message.content for message in scenes.messages}
    for case in scenes.cases:
        assert all(any(token in said[each] for each in case.evidence) for token in case.tokens), case
        assert not any(piece in said[each] for piece in case.unexpected for each in case.evidence), case


def test_the_group_has_a_year_of_messages_with_ids_of_their_own_in_order_of_time(built: Group) -> None:
    assert len(built.messages) == len({message.external_id for message in built.messages}) == 3000
    times = [message.sent_at for message in built.messages]
    assert times == sorted(times)
    assert timedelta(days=350) < times[-1] - times[0] <= timedelta(days=365)
    assert built.people >= 50


def test_the_small_chats_keep_their_words_times_and_answers(built: Group, samples: list[SampleChat]) -> None:
    in_group = {message.external_id for message in built.messages}
    for sample in samples:
        part = built.parts[sample.name]
        assert [(m.sent_at, m.content) for m in part.messages] == [
            (m.sent_at, m.content) for m in sample.messages
        ]
        ids = dict(
            zip(
                (m.external_id for m in sample.messages),
                (m.external_id for m in part.messages),
                strict=True,
            )
        )
        assert in_group.issuperset(ids.values())
        assert [m.reply_to for m in part.messages] == [
            m.reply_to and ids.get(m.reply_to) for m in sample.messages
        ]
        assert [c.evidence for c in part.cases] == [tuple(ids[e] for e in c.evidence) for c in sample.cases]


def test_two_people_never_have_one_name(built: Group) -> None:
    names: dict[str, set[str]] = {}
    for message in built.messages:
        names.setdefault(message.sender_name.casefold(), set()).add(message.sender_id)
    assert {name: ids for name, ids in names.items() if len(ids) > 1} == {}
    # and who is in the village and in the scenes is one person
    assert {"Will", "Will (band)", "Priya (rowing)"} <= {m.sender_name for m in built.messages}
    village, scenes = (
        {m.sender_id for m in built.parts[name].messages if m.sender_name == "Rose T"}
        for name in ("held_village_en", "group_scenes")
    )
    assert village == scenes


def test_what_is_made_up_holds_no_piece_of_an_answer_and_lies_in_between(built: Group) -> None:
    pieces = [
        piece.casefold()
        for part in built.parts.values()
        for case in part.cases
        for piece in (*case.tokens, *case.unexpected)
    ]
    made_up = [m for m in built.messages if m.external_id.startswith("talk:")]
    assert not [m.content for m in made_up if any(piece in m.content.casefold() for piece in pieces)]
    sampled = sorted(m.sent_at for part in built.parts.values() for m in part.messages)
    near = [m for m in made_up if any(abs(m.sent_at - at) < APART / 2 for at in sampled)]
    assert len(near) < len(made_up) / 100


@given(st.integers(0, 99), st.integers(0, 60), st.integers(1, 30))
def test_talk_is_as_long_as_asked_for_in_its_time_and_the_same_for_a_seed(
    seed: int, messages: int, days: int
) -> None:
    ended = BEGAN + timedelta(days=days)
    made = talk(seed, messages, MEMBERS, BEGAN, ended, without=["Harper"])
    assert made == talk(seed, messages, MEMBERS, BEGAN, ended, without=["Harper"])
    assert len(made) == len({m.external_id for m in made}) == messages
    assert all(BEGAN <= m.sent_at <= ended for m in made)
    assert [m.sent_at for m in made] == sorted(m.sent_at for m in made)
    assert not any("harper" in m.content.casefold() for m in made)
    assert {m.sender_id for m in made} <= {member.id for member in MEMBERS}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tiny.write(tmp_path_factory.mktemp("chats"))
    settings = Settings(_env_file=None, embedding_provider="deterministic")
    parts = ("flat", "office", "boat")
    return run.in_group(settings, run.Options(folder=folder), 400, lambda _: None, parts)


def test_the_same_questions_are_asked_alone_and_in_the_group(tables: dict[str, Any]) -> None:
    alone, together = tables["alone"], tables["group"]
    assert tables["messages"] == 400
    for found in (alone, together):
        assert (found["questions"], len(found["details"])) == (8, 10)
        assert found["chats"] == ["flat", "office", "boat"]
        assert set(found["all"]) == {OURS, "bm25", "vectors", "sum"}
    # in six messages everything is found; among four hundred something may be missed, but not much
    assert alone["all"][OURS]["R@20"] == 1
    assert together["all"][OURS]["R@20"] > 0.5
    assert together["all"][OURS]["R@5"] < 1


def test_people_see_both_places(tables: dict[str, Any]) -> None:
    console = Console(file=StringIO(), width=200)
    console.print(*group_tables(tables))
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    for name in ("8 questions", "400 messages", "flat", "boat", "bm25", "identifier", "95 % interval"):
        assert name in printed
