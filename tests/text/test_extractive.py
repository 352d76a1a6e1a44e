"""A session is summarized without a model: what mattered is in it, and nothing that was not said."""

import re
from time import process_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.enrich.extractive import summarize
from schemas.sessions import Summary
from tests.text.builders import conversation, message

BOILER = conversation(
    "Inês: is anyone else getting only cold water",
    "Tom: Boiler says E41 on the display and the fan never starts.",
    "Olek: did you ask it nicely",
    "Inês: I'll write to Dona Graça. last time she sent her plumber, Amílcar",
    "Davi: at the restaurant we know a woman called Beatriz, she fixed the dishwasher",
    "Inês: Graça says Amílcar takes 45 € just to come, thursday morning",
    "Davi: Beatriz can tomorrow at 17:30, for 60 €",
    "Maren: I'd pay 15 € more for hot water",
    "Tom: lol",
    "Inês: ok decided: we take Beatriz, tomorrow 17:30.",
    "Olek: can you leave the key with Dona Lurdes, Inês?",
    "Tom: who pays her in the meantime, and how much?",
)


def test_the_summary_tells_the_weightiest_sentences_with_speaker_and_date():
    summary = summarize(BOILER).summary

    assert summary.startswith("2 March 2026: ")
    assert "Davi: Beatriz can tomorrow (3 March 2026) at 17:30, for 60 €." in summary
    assert "E41" in summary
    assert "lol" not in summary
    assert len(summary) < 1200


def test_tasks_and_unanswered_questions_are_listed_with_who_said_them_and_no_decisions():
    summary = summarize(BOILER)

    # which only a language model can tell
    assert summary.decisions == []
    assert "Inês: I'll write to Dona Graça." in summary.action_items
    assert summary.open_questions == ["Tom: who pays her in the meantime, and how much?"]


def test_topics_are_what_was_talked_about_again_and_again():
    topics = summarize(BOILER).topics

    assert "Beatriz" in topics
    assert "Amílcar" in topics
    assert not {"decided", "anyone", "thursday"} & set(topics)


def test_a_question_that_was_answered_is_not_open():
    answered = conversation("Ann: where is the key for the cellar?", "Bob: on the hook", "Ann: thanks")
    unknown = conversation("Ann: where is the key for the cellar?", "Bob: no idea, sorry")

    assert summarize(answered).open_questions == []
    assert summarize(unknown).open_questions == ["Ann: where is the key for the cellar?"]


def test_dates_are_those_of_the_chats_calendar():
    late = [message("I saw the dolphins yesterday", minute=350)]

    assert "yesterday (1 March 2026)" in summarize(late).summary
    assert "yesterday (2 March 2026)" in summarize(late, time_zone=ZoneInfo("Asia/Tokyo")).summary


def test_one_message_is_a_session_too():
    summary = summarize([message("👍")])

    assert summary.summary == "2 March 2026."
    assert summary.topics == []
    assert summarize([message("the ferry leaves at 9:40")]).summary == (
        "2 March 2026: Ann: the ferry leaves at 9:40."
    )


def test_scripts_without_spaces_or_latin_letters_are_summarized():
    summary = summarize(
        conversation(
            "健: 明日の会議は三時に変更されました。場所は渋谷です。", "Аня: Встреча перенесена на четверг"
        )
    )

    assert "明日の会議" in summary.summary
    assert "Встреча" in summary.summary
    assert summary.topics


def test_a_rolling_summary_carries_on_what_came_before():
    first = summarize(BOILER)
    later = conversation(
        "Tom: Beatriz replaced the fan, 145 € with the guarantee",
        "Maren: let's pay the invoice from the kitty",
        "Tom: I paid her, so that question about who pays is done",
    )

    rolled = summarize(later, first)

    assert rolled.summary.startswith("2 March 2026: ")
    assert "E41" in rolled.search_text()
    assert "145 €" in rolled.summary
    assert rolled.open_questions == []


def test_rolling_on_and_on_does_not_grow():
    summary = summarize(BOILER)
    for _ in range(30):
        summary = summarize(BOILER, summary)

    assert len(summary.summary) < 1200
    assert len(summary.action_items) == len(set(summary.action_items)) == 2


def test_long_sessions_are_summarized_quickly():
    messages = conversation(
        *(f"P{i % 5}: {m.content} Part {i}." for i in range(2000) for m in [BOILER[i % 12]])
    )

    started = process_time()
    summary = summarize(messages)

    assert process_time() - started < 5  # some 0.2 s on an idle machine
    assert len(summary.summary) < 1200


def test_without_messages_there_is_nothing_to_summarize():
    with pytest.raises(ValueError, match="no messages"):
        summarize([])


def said_in(text: str) -> str:
    """Only its letters and digits, without the dates that were added in brackets."""
    return re.sub(r"\W+", "", re.sub(r" \([^()]*\d{4}\)", "", text))


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Ann", "Bob", "李", ""]),
            st.text(max_size=120) | st.sampled_from([m.content for m in BOILER]),
            st.sampled_from(["user", "assistant", "system", "tool"]),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_any_conversation_gives_the_same_valid_summary_every_time(said: list[tuple[str, str, str]]):
    messages = [message(text, name, minute=i, id=i, role=role) for i, (name, text, role) in enumerate(said)]

    summary = summarize(messages)

    assert summary == summarize(messages)
    Summary.model_validate(summary.model_dump())
    everything = said_in(" ".join(m.content for m in messages))
    for item in (*summary.open_questions, *summary.action_items):
        speaker, _, quoted = item.partition(": ")
        assert speaker in {m.speaker for m in messages}
        assert said_in(quoted.removesuffix("…"))[:40] in everything
    Summary.model_validate(summarize(messages, summary).model_dump())


def test_marks_of_what_is_no_text_stand_nowhere() -> None:
    summary = summarize(
        conversation(
            "Bo: [image] see the rack in the cellar",
            "Carla: [location 48.1, 11.5]",
            "Bo: [sticker]",
            "Carla: POLL:\nWhich disks for the rack?\nOPTION: Toshiba (2 votes)\nOPTION: Seagate (1 vote)",
            "Bo: [document Lease.pdf] the rack is in the lease",
        )
    )

    everything = summary.search_text()
    for mark in ("image", "location", "sticker", "OPTION", "POLL", "votes", "["):
        assert mark not in everything
    assert "see the rack in the cellar" in summary.summary
    assert "Toshiba" in summary.summary
    assert "Lease.pdf" in summary.summary
    assert summarize(conversation("Bo: [image]", "Carla: [sticker]")).summary == "2 March 2026."


def test_what_the_bot_was_asked_and_did_not_know_is_not_told() -> None:
    summary = summarize(
        [
            *conversation(
                "Ann: the ferry leaves at 9:40", "Bob: @ferrybot when does the ferry to Cacilhas leave?"
            ),
            message("I don't know.", "Ferry Bot", minute=3, role="assistant"),
        ]
    ).summary

    assert summary == "2 March 2026: Ann: the ferry leaves at 9:40."
