"""The words of a question are looked up one by one with the rest that it needs, and that changes none of them."""

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from pipeline.store.search import keyword_search, prelude
from pipeline.store.search.prelude import Latest
from schemas.messages import ChatIn
from tests.conftest import TENANT, message

PIECES = (
    "Wann ferries running don't the a-b - 5 -5 3.14 1e5 &amp; x&y a/b /etc ann@example.org https://a.example/b?c=d "
    "#tag @bob “so” 你好 今天吃什么 東京へ ไปไหน über Straße <b > … ?! e.g. U.S. C++ v1.2.3 10:30 12/05/2024 İ 👍🏽"
).split()
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.just("\u00a0"), st.text(max_size=8)), max_size=12).map(
    " ".join
)


@pytest.mark.parametrize("language", ["english", "simple", "chinese", "german+english"])
def test_words_looked_up_one_by_one_are_those_of_the_text(database: Database, language: str) -> None:
    chat = ChatIn(chat_id="test:words", language=language)
    accept.accept(database, TENANT, chat, [message(0, "hello")])
    with database.tenant(TENANT) as connection:

        @examples(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(TEXTS.filter(lambda text: "\0" not in text))
        @example("where did ann@example.org go / run -5 &amp; 你好")
        @example("Ѐ À ёж Zoë")
        @example("\u0300")
        @example("Wann ~0")
        @example("Zoë \u0301\u0300 и \u0306 l\u0327eau")
        def same(text: str) -> None:
            found = prelude.read(connection, chat.chat_id, None, [text], Latest(questions=0, messages=0))
            assert found is not None
            together = found.lexemes(text)
            assert together is None or together == sorted(
                keyword_search.lexemes(connection, language, text)
            ), text

        same()


APART = {
    "“Hello” — wait…ok": "hello wait ok",
    "«Bonjour»\u00a0! Où\u202f?": "bonjour ou",
    "¿Qué? ¡100€!": "que 100",
    "cake🎂please 👍🏽👍": "cake 🎂 please 👍",
    "l’eau Zoë’s": "l eau zoe s",
    "soft\u00adhyphen zero\u200bwidth": "softhyphen zero width",
    "hi，你好。ok": "hi 你好 ok",
    "\u0300": "",
    "Zoë \u0301\u0300": "zoe",
}


def test_signs_beyond_ascii_are_no_letters_of_a_word_in_any_locale(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        for said, words in APART.items():
            assert sorted(keyword_search.lexemes(connection, "simple", said)) == sorted(words.split()), said
