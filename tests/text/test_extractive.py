"""A session is summarized without a model: what mattered is in it, and nothing that was not said."""

import re
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from pipeline.enrich.summaries.extractive import summarize
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


def test_the_summary_quotes_what_says_most_with_the_day_and_the_speaker():
    summary = summarize(BOILER).summary

    assert summary.startswith("2 March 2026\n")
    assert "\nInês: Graça says Amílcar takes 45 € just to come, thursday morning\n" in summary
    assert "E41" in summary
    assert "lol" not in summary
    assert len(summary) < 1200


def test_topics_set_a_session_apart():
    before = "小王: 面包店几点开门，面包店在拐角"
    lines = conversation("小王: 面包店旁边开了幼儿园", "老李: 幼儿园贵吗", "小王: 这幼儿园不贵，面包店贵")
    said = [(m.speaker, m.content) for m in conversation(*[before] * 6)]

    assert {"幼儿园", "面包店"} <= set(summarize(lines, language="chinese").topics)
    among = summarize(lines, earlier=said, language="chinese", time_zone=ZoneInfo("Asia/Tokyo"))
    assert "幼儿园" in among.topics
    assert "面包店" not in among.topics
    # on the chat's calendar
    assert among.summary.startswith("2026年3月3日\n")


def test_topics_are_whole_words_where_vowels_are_written_around_letters():
    lines = conversation(
        "आशा: बॉयलर की मरम्मत शुक्रवार को होगी",
        "राम: बॉयलर की मरम्मत महंगी है",
        "आशा: मरम्मत वाला कब आएगा",
        "राम: बॉयलर ठीक हुआ",
    )
    assert set(summarize(lines, language="hindi").topics[:2]) == {"बॉयलर", "मरम्मत"}
    # and where no space is, as long as a word is
    lines = conversation("ก: ซ่อมหม้อต้มน้ำวันศุกร์", "ข: หม้อต้มน้ำเสียอีกแล้ว", "ก: ราคาหม้อต้มน้ำเท่าไหร่", "ข: แพง")
    assert "หม้อต้มน้ำ" in summarize(lines, language="thai").topics


def test_tasks_and_unanswered_questions_are_listed_with_who_said_them_and_no_decisions():
    summary = summarize(BOILER)

    # which only a language model can tell
    assert summary.decisions == []
    assert "Inês: I'll write to Dona Graça." in summary.action_items
    assert summary.open_questions == ["Tom: who pays her in the meantime, and how much?"]


def test_a_rolling_summary_carries_on_what_came_before():
    first = summarize(BOILER)
    later = conversation(
        "Tom: Beatriz replaced the fan, 145 € with the guarantee",
        "Maren: let's pay the invoice from the kitty",
        "Tom: I paid her, so that question about who pays is done",
    )

    rolled = summarize(later, first)

    assert rolled.summary.startswith("2 March 2026\n")
    assert "E41" in rolled.search_text()
    assert "145 €" in rolled.summary
    assert rolled.open_questions == []


def said_in(text: str) -> str:
    return re.sub(r"\W+", "", text)


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
    for item in (*summary.summary.split("\n")[1:], *summary.open_questions, *summary.action_items):
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

    for mark in ("image", "location", "sticker", "OPTION", "POLL", "votes", "["):
        assert mark not in summary.search_text()
    assert "Toshiba" in summary.summary
    assert "Lease.pdf" in summary.summary
