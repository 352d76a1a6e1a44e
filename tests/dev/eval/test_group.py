"""One large group made of small chats: what stays as it was, what is made up around it, and what is counted."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ops.dev.eval import group, run
from ops.dev.eval.group import Group
from ops.dev.eval.measures import OURS
from ops.dev.eval.samples import SampleChat
from schemas.settings import Settings
from tests.dev.eval import tiny

BEGAN = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def samples() -> list[SampleChat]:
    return [group.read(name) for name in group.PARTS]


@pytest.fixture(scope="module")
def built(samples: list[SampleChat]) -> Group:
    return group.build(samples, 3000)


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
