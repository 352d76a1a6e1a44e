"""A question that asks what was said at a time, and for nothing in particular, is known in every language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.recall.ask import parse
from pipeline.recall.ask.parse import Question
from tests.recall.ask.test_parse import EARLIEST, NOW, PEOPLE

ASKED = {
    "english": [
        "Summarize last week",
        "what happened in October?",
        "What did I miss since Monday?",
        "give me a short recap of yesterday please",
        "what did we talk about on 3 March 2026?",
        "anything new since yesterday?",
        "Summarize what Ann said last week",
    ],
    "german": [
        "Fass die letzte Woche zusammen",
        "was habe ich seit Montag verpasst?",
        "Was war gestern los?",
    ],
    "french": ["Résume la semaine dernière", "Qu'est-ce que j'ai raté depuis lundi ?"],
    "spanish": ["¿qué pasó en octubre?", "¿de qué hablamos ayer?"],
    "portuguese": ["Resume a semana passada", "O que perdi desde segunda-feira?"],
    "italian": ["cosa è successo a ottobre?", "di cosa abbiamo parlato ieri?"],
    "dutch": ["Vat vorige week samen", "Wat heb ik gemist sinds maandag?"],
    "polish": ["co się wydarzyło w październiku?", "o czym rozmawialiśmy wczoraj?"],
    "turkish": ["Geçen haftayı özetle", "dün ne konuştuk?"],
    "russian": ["Подытожь прошлую неделю", "Что я пропустил с понедельника?"],
    "chinese": ["十月发生了什么？", "昨天大家聊了什么？"],
    "japanese": ["先週をまとめて", "昨日は何を話しましたか？"],
}
# Most of their words have endings that no list has.
UNKNOWN_ELSEWHERE = {"Geçen haftayı özetle"}
# the last of each names no time
SPECIFIC = {
    "english": [
        "what happened to the boiler last week?",
        "who called yesterday?",
        "how many messages did I miss since Monday?",
        'what happened to "plan B" last week?',
        "what happened?",
    ],
    "german": ["Was ist gestern mit dem Boiler passiert?", "was ist passiert?"],
    "french": ["qu'est-ce qui est arrivé à la chaudière hier ?", "que s'est-il passé ?"],
    "spanish": ["¿qué pasó ayer con la caldera?", "¿qué pasó?"],
    "portuguese": ["o que aconteceu ontem à caldeira?", "o que aconteceu?"],
    "italian": ["cosa è successo ieri alla caldaia?", "cosa è successo?"],
    "dutch": ["wat is er gisteren met de ketel gebeurd?", "wat is er gebeurd?"],
    "polish": ["co się wczoraj stało z bojlerem?", "co się stało?"],
    "turkish": ["dün kombiye ne oldu?", "ne oldu?"],
    "russian": ["что вчера случилось с котлом?", "что случилось?"],
    "chinese": ["昨天锅炉发生了什么？", "发生了什么？"],
    "japanese": ["昨日ボイラーに何がありましたか？", "何がありましたか？"],
}


def read(text: str, language: str) -> Question:
    return parse.read(text, PEOPLE, EARLIEST, NOW, language)


def each(texts: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(language, text) for language, of_language in texts.items() for text in of_language]


@pytest.mark.parametrize(("language", "text"), each(ASKED))
def test_an_overview_of_a_time_is_asked_for(language: str, text: str) -> None:
    assert read(text, language).overview
    # by somebody in a chat of another language, too
    assert read(text, "english").overview or text in UNKNOWN_ELSEWHERE


@pytest.mark.parametrize(("language", "text"), each(SPECIFIC))
def test_what_asks_for_something_in_particular_or_names_no_time_is_none(language: str, text: str) -> None:
    assert not read(text, language).overview


def test_an_overview_may_be_of_what_one_person_said() -> None:
    asked = read("Summarize what Ann said last week", "english")
    assert asked.overview
    assert asked.speakers == {"Ann Lee": 1}


@given(
    st.sampled_from(each(ASKED)), st.sampled_from(["boiler", "Kessel", "chaudière", "котёл", "Fibralonga"])
)
def test_a_word_about_something_makes_it_specific(asked: tuple[str, str], thing: str) -> None:
    language, text = asked
    assert not read(f"{thing} {text}", language).overview


@given(st.text(max_size=200))
def test_any_question_is_read(text: str) -> None:
    asked = read(text, "english")
    assert not asked.overview or asked.spans
