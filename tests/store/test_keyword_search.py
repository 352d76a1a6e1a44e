"""Keyword search: BM25 as the book has it, by its index, and behind the walls although it looks past them."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from pipeline.ingest import accept
from pipeline.recall.question import parse
from pipeline.store.connections.database import Database
from pipeline.store.search import arms, chat_snapshot, keyword_search
from pipeline.store.search.chat_snapshot import Latest
from pipeline.store.search.filters import Scope
from pipeline.store.search.keyword_search import KeywordHits
from pipeline.store.search.session_search import SessionLimits
from schemas.messages import ChatIn
from tests.conftest import TENANT, at, message
from tests.harness.pipeline import place
from tests.harness.search import write

# "simple" stems nothing; some of them are not one word for Postgres, which is why the test reads what it stored.
WORDS = ["boiler", "it's", "naïve", "back\\slash", "42", "日本", "x"]
SCOPE = Scope(chat_id="test:1", language="simple")


def search(
    connection: Connection,
    words: list[str],
    scope: Scope = SCOPE,
    *,
    messages: int = 100,
    mean_size: float = 3.0,
    limit: int = 50,
) -> KeywordHits:
    found = arms.search(
        connection,
        replace(scope, messages=messages, mean_size=mean_size),
        words,
        None,
        limit=limit,
        sessions=SessionLimits(read=0, nearest=0, looked_into=0, messages=0),
    )
    return found.by_word


def bm25(bags: list[list[str]], words: list[str], mean: float) -> dict[int, float]:
    """By the formula, from the words themselves: k1 = 1.2, b = 0.75."""
    scores: dict[int, float] = {}
    for word in set(words):
        df = sum(word in bag for bag in bags)
        for n, bag in enumerate(bags):
            if tf := Counter(bag)[word]:
                idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
                norm = 1.2 * (1 - 0.75 + 0.75 * len(set(bag)) / mean)
                scores[n] = scores.get(n, 0.0) + idf * tf * 2.2 / (tf + norm)
    return scores


@hypothesis_settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=300), min_size=1, max_size=12),
    st.lists(st.sampled_from(WORDS), min_size=1, unique=True),
)
def test_scores_are_those_of_the_formula(database: Database, bags: list[list[str]], words: list[str]) -> None:
    with database.tenant(TENANT) as connection:
        ids = write(connection, bags)
        stored = connection.execute(
            text(
                "SELECT id, (SELECT array_agg(t.lexeme || ' ' || p) FROM unnest(tsv) t, unnest(t.positions) p)"
                " FROM messages ORDER BY id"
            )
        ).all()
        really = [[place.rpartition(" ")[0] for place in row[1] or []] for row in stored]
        asked = keyword_search.lexemes(connection, "simple", " ".join(words))
        found = search(connection, asked, messages=len(ids))
        connection.rollback()
    expected = bm25(really, asked, 3.0)
    assert found.search == "exact"
    assert found.scores == pytest.approx({ids[n]: score for n, score in expected.items()})
    assert list(found.scores.values()) == sorted(found.scores.values(), reverse=True)
    assert found.document_frequency == {
        word: df for word in asked if (df := sum(word in bag for bag in really))
    }


@pytest.fixture
def large(database: Database) -> Iterator[Connection]:
    """A transaction on two chats of 4,000 messages: `everywhere` in all, `often` in half, `rare` in forty."""
    with database.tenant(TENANT) as connection:
        for chat in ("test:1", "test:2"):
            write(
                connection,
                [
                    ["everywhere", f"word{n}"] + ["often"] * (n % 2) + ["rare"] * (n % 100 == 0)
                    for n in range(4000)
                ],
                chat=chat,
            )
        yield connection


def test_above_the_cap_the_rarest_words_say_who_is_scored_and_all_words_how(
    large: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["everywhere", "often", "rare"]
    monkeypatch.setattr(keyword_search, "CANDIDATES", 10_000)
    exact = search(large, words, messages=4000)
    monkeypatch.setattr(keyword_search, "CANDIDATES", 1000)
    bounded = search(large, words, messages=4000)

    assert (exact.search, bounded.search) == ("exact", "bounded")
    assert list(exact.scores)[:40] == list(bounded.scores)
    assert exact.document_frequency == {"everywhere": 4000, "often": 2000, "rare": 40}
    # counted where it is cheap, and else estimated from messages of all the chat's time
    assert bounded.document_frequency["rare"] == 40
    assert bounded.document_frequency["often"] == pytest.approx(2000, rel=0.1)
    assert bounded.document_frequency["everywhere"] == 4000


def test_the_index_is_used_by_the_role_that_walls_hold(database: Database) -> None:
    scans = text("""
        SELECT i.idx_scan, t.seq_scan FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid)
        WHERE i.indexrelname = 'messages_keys'
    """)
    with database.tenant(TENANT) as connection:
        write(connection, [["boiler"]] * 10)
    with database.tenant(TENANT) as connection:
        used, read_whole = connection.execute(scans).one()
        assert len(search(connection, ["boiler"]).scores) == 10
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    # once to count the word, once to score
    with database.tenant(TENANT) as connection:
        assert connection.execute(scans).one() == (used + 2, read_whole)


CALL = "keyword_search('test:1', NULL, ARRAY['boiler'], 1, 1, 10, 10)"


def test_no_caller_finds_what_another_tenant_wrote(database: Database) -> None:
    with database.tenant("one") as connection:
        write(connection, [["boiler"]], tenant="one")
    hostile = [["boiler"], ["' | 'boiler"], ["x') OR true --"], ["\\"], ["'"]]
    for tenant in ("two", "", "one' OR 'a'='a"):
        with database.tenant(tenant) as connection:
            for words in hostile:
                assert search(connection, words).scores == {}
            for chat in ("test:1", "%", "' OR true --"):
                assert search(connection, ["boiler"], Scope(chat_id=chat, language="simple")).scores == {}
    with database.tenant("one") as connection:
        assert len(search(connection, ["boiler"]).scores) == 1
        # without a tenant nothing, whatever the transaction said before
        connection.execute(text("SELECT set_config('app.tenant_id', '', true)"))
        assert search(connection, ["boiler"]).scores == {}
    # nor by names that shadow those which the function reads
    with database.tenant("two") as connection:
        connection.execute(text("CREATE TEMPORARY TABLE messages AS SELECT 1"))
        connection.execute(
            text("""
                CREATE FUNCTION pg_temp.current_setting(text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'one' $$;
                SET LOCAL search_path = pg_temp, pg_catalog, public
            """)
        )
        assert connection.scalar(text(f"SELECT scores FROM public.{CALL}")) is None


def test_nobody_but_the_app_may_call_it_and_nobody_may_change_it(database: Database) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"), database.maintenance() as connection:
        connection.execute(text(f"SELECT {CALL}"))
    for change in (
        "ALTER FUNCTION keyword_search OWNER TO backscroll_app",
        "ALTER FUNCTION keyword_search SET search_path = pg_temp",
        "DROP FUNCTION keyword_search",
        "SET ROLE backscroll_search",
    ):
        with pytest.raises(ProgrammingError), database.tenant("one") as connection:
            connection.execute(text(change))


# By overlapping pairs, and a sign alone by itself; Thai has marks above its letters, which are parts of them.
CUT = {
    "日本語": "日本 本語",
    "か\u3099日": "か\u3099日",
    "東京へgo": "東京 京へ go",
    "今日。明": "今日 明",
    "カー-7": "カー -7",
    "가나다 ß😀a": "가나 나다 ß 😀 a",
    "นี้นน": "นี้น นน",
}


def test_scripts_without_spaces_are_cut_into_overlapping_pairs(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        for said, words in CUT.items():
            cut = connection.scalar(text("SELECT pairs_of(words_apart(:content))"), {"content": said})
            assert cut.split() == words.split(), said


HEBREW = ('מה אמר צה"ל', "מה אמר צה״ל"), ("איפה ג'ורג עכשיו", "איפה ג׳ורג עכשיו")


@pytest.mark.parametrize("spellings", HEBREW)
def test_an_abbreviation_is_found_as_it_was_typed_and_as_it_is_set(
    database: Database, spellings: tuple[str, str]
) -> None:
    with database.tenant(TENANT) as connection:
        for question in spellings:
            asked = keyword_search.lexemes(connection, "hebrew", parse.most_specific(question, "hebrew"))
            for stored in spellings:
                assert set(keyword_search.lexemes(connection, "hebrew", stored)) <= set(asked)


def test_what_is_not_seen_in_a_question_hides_no_word(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        for question in ("Ann\u200d?", "A\u2060nn", "\ufeffAnn\u200b", "A\ufe0fnn"):
            asked = keyword_search.lexemes(connection, "simple", parse.most_specific(question, "simple"))
            assert asked == ["ann"]


PIECES = (
    "Wann ferries running don't the a-b - 5 -5 3.14 1e5 &amp; x&y a/b /etc ann@example.org https://a.example/b?c=d "
    "#tag @bob “so” 你好 今天吃什么 東京へ ไปไหน über Straße <b > … ?! e.g. U.S. C++ v1.2.3 10:30 12/05/2024 İ 👍🏽"
).split()
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.just("\u00a0"), st.text(max_size=8)), max_size=12).map(
    " ".join
)


@pytest.mark.parametrize("language", ["chinese", "german+english"])
def test_words_looked_up_one_by_one_are_those_of_the_text(database: Database, language: str) -> None:
    chat = ChatIn(chat_id="test:words", language=language)
    accept.accept(database, TENANT, chat, [message(0, "hello")])
    with database.tenant(TENANT) as connection:

        @hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(TEXTS.filter(lambda text: "\0" not in text))
        @example("where did ann@example.org go / run -5 &amp; 你好")
        @example("Ѐ À ёж Zoë")
        @example("Zoë \u0301\u0300 и \u0306 l\u0327eau")
        def same(text: str) -> None:
            found = chat_snapshot.read(
                connection, chat.chat_id, None, [text], Latest(questions=0, messages=0)
            )
            assert found is not None
            together = found.lexemes(text)
            assert together is None or together == sorted(
                keyword_search.lexemes(connection, language, text)
            ), text

        same()


def test_of_equal_messages_and_sessions_the_latest_are_found_and_at_the_limit_all_of_one_instant(
    database: Database,
) -> None:
    said = [(5, ""), (5, "shift"), (500, ""), (500, "shift"), (1000, "night"), (5, "night")]
    for n, (minute, key) in enumerate(said):
        accept.accept(
            database,
            TENANT,
            ChatIn(chat_id="test:1"),
            [message(minute, "boiler", id=f"m{n}", session_key=key)],
        )
    place(database)
    with database.tenant(TENANT) as connection:
        found = search(connection, ["boiler"], limit=2)
        arguments = {"chat": "test:1", "key": None, "words": ["boiler"], "messages": 6.0, "mean_size": 1.0}
        sessions = connection.scalar(
            text(f"SELECT sessions FROM {keyword_search.search(sessions=2)}"),
            arguments | {"most": 10, "limit": 1},
        )
        which = connection.execute(
            text("SELECT external_id FROM messages WHERE id = ANY(:ids)"), {"ids": [*found.scores]}
        )
        assert {row[0] for row in which} == {"m2", "m3", "m4"}
        starts = connection.execute(
            text("SELECT started_at FROM conversation_sessions WHERE id = ANY(:ids)"),
            {"ids": [int(i) for i in sessions]},
        )
        assert sorted(row[0] for row in starts) == [at(500), at(500), at(1000)]
