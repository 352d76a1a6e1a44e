"""A chat is found in the language that it is in: declared, or detected once it has some messages."""

from collections.abc import Sequence
from itertools import cycle, islice

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text

from pipeline.ingest import languages
from pipeline.ingest.accept import accept
from pipeline.store.chats import chat_languages, chats
from pipeline.store.chats.chats import Chat
from pipeline.store.connections.database import Database
from pipeline.store.search import keyword_search
from pipeline.text.accents import without_accents
from schemas.messages import ChatIn
from tests.conftest import SESSION_POLICY, TENANT, message
from tests.harness.pipeline import place, rows, run, summarizer

CHAT = "test:1"
GERMAN = (
    "Wann kommst du denn morgen nach Hause?",
    "So gegen acht, ich muss vorher noch zur Werkstatt.",
    "Hat jemand die Rechnungen vom Klempner gesehen?",
    "Ja, die liegen bei mir auf dem Schreibtisch.",
    "Dann bringe ich das Geld morgen früh zur Bank.",
    "Super, vielen Dank, das hilft uns sehr.",
)


def say(database: Database, texts: Sequence[str], *, count: int | None = None, start: int = 0) -> None:
    said = islice(cycle(texts), count or len(texts))
    some = [message(start + n, each) for n, each in enumerate(said)]
    accept(database, TENANT, ChatIn(chat_id=CHAT), some)


def label(database: Database) -> int:
    """Do the jobs of languages that are due; how many there were."""
    return run(database, "language", languages.labeller(database, SESSION_POLICY))


def stored(database: Database, chat_id: str = CHAT) -> Chat:
    with database.tenant(TENANT) as connection:
        chat = chats.get(connection, chat_id)
    assert chat is not None
    return chat


def found(database: Database, asked: str, chat_id: str = CHAT) -> list[str]:
    """The texts that the words of a question find, best first."""
    with database.tenant(TENANT) as connection:
        chat = chats.get(connection, chat_id)
        words = keyword_search.lexemes(connection, chat.language, asked)
        rows = connection.execute(
            text("""
                SELECT content FROM messages WHERE chat_id = :chat AND tsv @@ CAST(:any AS tsquery)
                ORDER BY ts_rank(tsv, CAST(:any AS tsquery)) DESC, id
            """),
            {"chat": chat_id, "any": keyword_search.any_of(words)},
        )
        return list(rows.scalars())


def counted(database: Database) -> bool:
    """Whether the lexemes of a chat are as many as its counter says."""
    equal = "SELECT lexeme_count = (SELECT coalesce(sum(length(tsv)), 0) FROM messages) FROM chats"
    return rows(database, equal) == [(True,)]


def in_languages(database: Database) -> set[object]:
    found = "SELECT language FROM messages UNION SELECT language FROM conversation_sessions"
    return {language for (language,) in rows(database, found)}


ACCENTS = [
    ("portuguese", "votação, reunião, amanhã, informações", "votacao, reuniao, amanha, informacoes"),
    ("greek", "καλημέρα", "καλημερα"),
    ("polish+english", "żółw, café", "zolw, cafe"),
]


@pytest.mark.parametrize(("language", "said", "bare"), ACCENTS)
def test_words_are_found_without_accents(database: Database, language: str, said: str, bare: str) -> None:
    texts = {f"{said}.", f"{bare}?"}
    messages = [message(place, each) for place, each in enumerate(sorted(texts))]
    accept(database, TENANT, ChatIn(chat_id=CHAT, language=language), messages)
    for word in (*said.split(", "), *bare.split(", ")):
        assert set(found(database, word)) == texts, word


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=0x1EFF, exclude_categories=["Cs"])))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_question_and_a_message_lose_the_same_accents(database: Database, content: str) -> None:
    with database.tenant(TENANT) as connection:
        stored = connection.scalar(text("SELECT without_accents(:content)"), {"content": content})
    assert without_accents(content) == stored


def test_an_undeclared_language_is_known_after_twenty_messages(database: Database) -> None:
    # Given nineteen messages
    say(database, GERMAN, count=19)
    place(database)
    assert label(database) == 0
    assert not found(database, "Gibt es eine Rechnung?")
    say(database, GERMAN, count=1, start=100)
    place(database)
    # what was summarized in the default language
    run(database, "summarize", summarizer(database))
    assert label(database) == 1
    # Then it is summarized anew, another form of a word finds it, and what comes is in that language
    assert run(database, "summarize", summarizer(database)) >= 1
    chat = stored(database)
    assert (chat.language, chat.language_by, chat.language_at) == ("german", "detected", 20)
    assert "Rechnungen" in found(database, "Gibt es eine Rechnung?")[0]
    say(database, ["Die Häuser sind alle verkauft."], start=200)
    place(database)
    assert "Die Häuser sind alle verkauft." in found(database, "ein Haus")
    assert in_languages(database) == {"german"}
    assert counted(database)


def test_what_is_declared_stays_until_it_is_to_be_detected(database: Database) -> None:
    accept(database, TENANT, ChatIn(chat_id=CHAT, language="pt"), [message(-1, "Olá")])
    say(database, GERMAN, count=30)
    place(database)
    assert label(database) == 0
    assert (stored(database).language, stored(database).language_by) == ("portuguese", "declared")
    assert languages.change(database, TENANT, CHAT, "auto", SESSION_POLICY) == 31
    assert (stored(database).language, stored(database).language_by) == ("german", "detected")
    # what a bot says with every message counts, too, also when it is what was detected
    accept(database, TENANT, ChatIn(chat_id=CHAT, language="german"), [message(500, "Gut")])
    assert stored(database).language_by == "declared"


def test_a_change_that_was_broken_off_goes_on(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a change whose process ends after a slice
    say(database, GERMAN, count=12)
    place(database)
    monkeypatch.setattr(languages, "INDEXED_AT_ONCE", 5)
    index, slices = chat_languages.index_messages, []

    def ends(*given: object) -> object:
        if slices:
            raise KeyboardInterrupt
        slices.append(given)
        return index(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(chat_languages, "index_messages", ends)
        with pytest.raises(KeyboardInterrupt):
            languages.change(database, TENANT, CHAT, "german", SESSION_POLICY)
    assert in_languages(database) == {"german", "english"}
    assert counted(database)
    # When a worker takes the job that the change left
    assert label(database) == 1
    assert in_languages(database) == {"german"}
    assert len(found(database, "Rechnung")) == 2
    assert counted(database)
    assert languages.change(database, TENANT, CHAT, "german", SESSION_POLICY) == 0


def test_texts_of_the_declared_language_or_of_none_look_like_no_other() -> None:
    assert languages.undeclared_language(GERMAN, "english") == "german"
    assert languages.undeclared_language(GERMAN, "german+english") is None
    assert languages.undeclared_language(GERMAN, "simple") is None
    assert languages.undeclared_language(["ok", "Fibralonga 34,90"], "english") is None
