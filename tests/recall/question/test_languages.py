"""A question is read in its own language, too, whatever the chat's is."""

from datetime import UTC, datetime

import pytest

from pipeline.recall.question import parse
from pipeline.recall.question.parse import read_in
from pipeline.text.languages import LANGUAGES
from tests.recall.question.times import EARLIEST, NOW
from tests.text.builders import EXAMPLES

PEOPLE = ["Ben", "Ann Lee", "Бен", "本田", "Mar"]
# NOW is Wednesday, 15 April 2026
YESTERDAY = ((datetime(2026, 4, 14, tzinfo=UTC), datetime(2026, 4, 15, tzinfo=UTC)),)


@pytest.mark.parametrize("chat", ["english", "russian", "chinese", "turkish"])
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("english", "What did Ben say yesterday?"),
        ("german", "Was hat Ben gestern gesagt?"),
        ("turkish", "Ben dün ne dedi?"),
        ("russian", "Что Бен сказал вчера?"),
        ("chinese", "Ben昨天说了什么？"),
        ("japanese", "ベンは昨日何と言いましたか？"),
    ],
)
def test_yesterday_is_known_in_any_language_in_any_chat(chat: str, language: str, text: str) -> None:
    asked = parse.read(text, PEOPLE, EARLIEST, NOW, chat)
    assert asked.spans == YESTERDAY
    assert asked.language == (chat if language == chat else f"{language}+{chat}")


@pytest.mark.parametrize(
    ("chat", "text"),
    [
        # Spanish for March, Turkish for ten
        ("english", "What did Mar say?"),
        ("english", "what is on the table?"),
        # a word of Spanish and Portuguese
        ("portuguese", "quando chega a carta do banco?"),
        # words of nobody's
        ("english", "E41 502 ???"),
        ("japanese", "東京駅の天気"),
        # no language that is known better than the chat's
        ("german+english", "Was there milk in the Keller?"),
        ("ukrainian", "коли ми їдемо до Києва на вихідні?"),
    ],
)
def test_what_is_in_the_chats_language_or_in_none_is_read_in_the_chats(chat: str, text: str) -> None:
    names = {"mar", "ben"}
    assert read_in(text, chat, names) == chat
    assert parse.read(text, PEOPLE, EARLIEST, NOW, chat).spans == ()


@pytest.mark.parametrize("language", LANGUAGES)
def test_few_questions_are_taken_for_ones_of_another_language(language: str) -> None:
    asked = [
        text for kind in ("questions", "when", "number", "now") for text in EXAMPLES[language].get(kind, ())
    ]
    taken = [text for text in asked if read_in(text, language) != language]
    assert len(taken) <= len(asked) // 20, taken
