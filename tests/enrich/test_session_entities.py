"""Entities are read off a session whatever is said in it, and each is one of its names."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from pipeline.enrich.session_entities import MAX_NAMES, MAX_RELATIONS, found_in
from pipeline.text.entity_names import Mentions, asked, is_name, normalized
from schemas.sessions import Message
from tests.conftest import EPOCH

WORDS = st.sampled_from(
    "Porto|porto|Lena|Lena Berger|in|May|will|5 May|12:30|@kim|v1.2|.|Ä|Kranz GmbH".split("|")
)
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


def message(number: int, text: str, sender: int = 0) -> Message:
    return Message(
        id=number,
        chat_id="test:1",
        external_id=str(number),
        sender_id=f"test:{sender}",
        sender_name=["Lena Berger", "May", ""][sender % 3],
        role="user",
        content=text,
        sent_at=EPOCH + timedelta(minutes=number),
        position=0,
        session_key="",
        agent_id=None,
        metadata={},
    )


@given(st.lists(st.tuples(TEXTS | st.text(max_size=60), st.integers(0, 5)), max_size=12))
def test_whatever_is_said_the_graph_of_a_session_is_sound(said: list[tuple[str, int]]) -> None:
    messages = [message(n, text, sender) for n, (text, sender) in enumerate(said)]
    found = found_in(messages, language="english")
    assert found == found_in(messages, language="english")
    assert len({(each.name, each.user_id) for each in found.entities}) == len(found.entities)
    assert len(found.entities) <= MAX_NAMES + 6
    assert len(found.relations) <= MAX_RELATIONS
    for entity in found.entities:
        assert entity.aliases
        assert entity.messages.keys() <= {each.id for each in messages}
    for relation in found.relations:
        assert 0 <= relation.one < relation.other < len(found.entities)
        assert relation.first_at <= relation.last_at


def test_amounts_dates_and_links_are_no_names() -> None:
    names = [
        "Porto",
        "5 May",
        "May 5",
        "12:30",
        "€40",
        "https://a.example/b",
        "ann@a.example",
        "v1.2",
        "the",
        "x",
    ]
    assert [name for name in names if is_name(name, "english")] == ["Porto", "v1.2"]


def test_a_short_word_in_lower_case_is_no_name() -> None:
    mentions = Mentions({"may", "porto", "kim"})
    assert mentions.of("maybe i may go to porto with kim") == ["porto"]
    assert mentions.of("May and Kim's Porto") == ["may", "kim", "porto"]


@given(st.text(max_size=200))
def test_a_question_is_looked_up_by_each_of_its_names(text: str) -> None:
    assert all(normalized(run) == run and run for run in asked(text, "english"))
    assert "lena berger" in asked(f"{text[:50]} . Where is Lena Berger?", "english")


def test_two_people_of_one_first_name_are_not_mistaken_for_each_other() -> None:
    one, other = message(0, "Hello"), message(1, "Hi Ann!", 1)
    said = [
        Message(**{**vars(one), "sender_name": "Ann Lee"}),
        Message(**{**vars(other), "sender_name": "Ann Wu"}),
        message(2, "I told Ann Lee", 2),
    ]
    by_name = {each.name: sorted(each.messages) for each in found_in(said, language="english").entities}
    assert by_name["ann lee"] == [2]
    assert by_name["ann wu"] == []
