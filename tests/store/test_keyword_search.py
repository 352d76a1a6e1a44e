"""Keyword search: BM25 as the book has it, by its index, and behind the walls although it looks past them."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from pipeline.store.search import arms, keyword_search, prelude
from pipeline.store.search.filters import Scope
from pipeline.store.search.keyword_search import KeywordHits
from pipeline.store.search.prelude import Latest
from pipeline.store.search.session_search import SessionLimits
from schemas.messages import ChatIn
from tests.conftest import TENANT, message

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


def write(
    connection: Connection, bags: list[list[str]], tenant: str = TENANT, chat: str = "test:1"
) -> list[int]:
    """Messages of exactly these words; their ids."""
    connection.execute(
        text("INSERT INTO tenants (tenant_id) VALUES (:t) ON CONFLICT DO NOTHING"), {"t": tenant}
    )
    connection.execute(
        text(
            "INSERT INTO chats (tenant_id, chat_id, language) VALUES (:t, :c, 'simple') ON CONFLICT DO NOTHING"
        ),
        {"t": tenant, "c": chat},
    )
    rows = connection.execute(
        text("""
            INSERT INTO messages (tenant_id, chat_id, external_id, sender_id, role, content, token_count, sent_at,
                language)
            SELECT :t, :c, n::text, 's', 'user', content, 1, TIMESTAMPTZ '2026-01-01 00:00Z' + n * interval '1 min',
                'simple'
            FROM unnest(CAST(:contents AS text[])) WITH ORDINALITY AS given (content, n) RETURNING id
        """),
        {"t": tenant, "c": chat, "contents": [" ".join(bag) for bag in bags]},
    )
    return [row[0] for row in rows]


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


@hypothesis_settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@hypothesis_settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), min_size=1, max_size=4),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.sampled_from("abcx"), min_size=1, unique=True),
)
def test_a_session_is_scored_by_all_that_was_said_in_it(
    database: Database, sessions: list[list[list[str]]], words: list[str]
) -> None:
    bags = [bag for session in sessions for bag in session]
    with database.tenant(TENANT) as connection:
        write(connection, bags)
        ids, first = [], 1
        for session in sessions:
            ids += connection.execute(
                text("""
                    INSERT INTO conversation_sessions (tenant_id, chat_id, session_key, started_at, ended_at,
                        message_count, token_count, participants, status)
                    SELECT :t, 'test:1', '', TIMESTAMPTZ '2026-01-01 00:00Z' + :first * interval '1 min',
                        TIMESTAMPTZ '2026-01-01 00:00Z' + :last * interval '1 min', :count, 1, '{}', 'closed'
                    RETURNING id
                """),
                {"t": TENANT, "first": first, "last": first + len(session) - 1, "count": len(session)},
            ).scalars()
            first += len(session)
        given = {"words": words, "total": len(bags)}
        call = "SELECT sessions FROM keyword_search('test:1', NULL, :words, :total, 3, 5000, 10, 10)"
        found = connection.execute(text(call), given).scalar_one() or {}
        connection.rollback()
    expected: dict[str, float] = {}
    for id_, session in zip(ids, sessions, strict=True):
        said = Counter(word for bag in session for word in bag)
        norm = 1.2 * (0.25 + 0.75 * len(session) / (len(bags) / len(sessions)))
        for word in words:
            df = sum(word in bag for bag in bags)
            idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
            if said[word]:
                expected[str(id_)] = expected.get(str(id_), 0.0) + idf * said[word] * 2.2 / (
                    said[word] + norm
                )
    assert found == pytest.approx(expected)


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
    with database.tenant(TENANT) as connection:
        write(connection, [["boiler"]] * 10)

    def scans() -> tuple[int, int]:
        with database.tenant(TENANT) as connection:
            row = connection.execute(
                text("""
                    SELECT i.idx_scan, t.seq_scan FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid)
                    WHERE i.indexrelname = 'messages_keys'
                """)
            ).one()
            return row[0], row[1]

    used, read_whole = scans()
    with database.tenant(TENANT) as connection:
        assert len(search(connection, ["boiler"]).scores) == 10
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
    # once to count the word, once to score
    assert scans() == (used + 2, read_whole)


def test_only_its_own_thread_is_searched(database: Database) -> None:
    with database.tenant(TENANT) as connection:
        ids = write(connection, [["boiler"], ["boiler"]])
        connection.execute(text("UPDATE messages SET session_key = 'k' WHERE id = :id"), {"id": ids[1]})
        thread = Scope(chat_id="test:1", language="simple", session_key="k")
        assert list(search(connection, ["boiler"], thread).scores) == [ids[1]]
        assert set(search(connection, ["boiler"]).scores) == set(ids)


def test_no_caller_finds_what_another_tenant_wrote(database: Database) -> None:
    with database.tenant("one") as connection:
        write(connection, [["boiler"]], tenant="one")
    hostile = [["boiler"], ["' | 'boiler"], ["x') OR true --"], ["\\"], ["'"], [""]]
    for tenant in ("two", "", "one' OR 'a'='a"):
        with database.tenant(tenant) as connection:
            for words in hostile[:-1]:
                assert search(connection, words).scores == {}
            for chat in ("test:1", "%", "' OR true --"):
                assert search(connection, ["boiler"], Scope(chat_id=chat, language="simple")).scores == {}
    with database.tenant("one") as connection:
        assert len(search(connection, ["boiler"]).scores) == 1
        # without a tenant nothing, whatever the transaction said before
        connection.execute(text("SELECT set_config('app.tenant_id', '', true)"))
        assert search(connection, ["boiler"]).scores == {}


def test_names_that_a_caller_shadows_are_not_what_the_function_reads(database: Database) -> None:
    with database.tenant("one") as connection:
        write(connection, [["boiler"]], tenant="one")
    with database.tenant("two") as connection:
        connection.execute(text("CREATE TEMPORARY TABLE messages AS SELECT 1"))
        connection.execute(
            text("""
                CREATE FUNCTION pg_temp.nullif(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'one' $$;
                CREATE FUNCTION pg_temp.current_setting(text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'one' $$;
            """)
        )
        connection.execute(text("SET LOCAL search_path = pg_temp, pg_catalog, public"))
        found = connection.execute(
            text("SELECT scores FROM public.keyword_search('test:1', NULL, ARRAY['boiler'], 1, 1, 10, 10)")
        ).scalar_one()
        assert found is None


def test_nobody_but_the_app_may_call_it_and_nobody_may_change_it(database: Database) -> None:
    call = "SELECT keyword_search('test:1', NULL, ARRAY['boiler'], 1, 1, 10, 10)"
    with pytest.raises(ProgrammingError, match="permission denied"), database.maintenance() as connection:
        connection.execute(text(call))
    for change in (
        "ALTER FUNCTION keyword_search OWNER TO backscroll_app",
        "ALTER FUNCTION keyword_search SET search_path = pg_temp",
        "DROP FUNCTION keyword_search",
        "SET ROLE backscroll_search",
    ):
        with pytest.raises(ProgrammingError), database.tenant("one") as connection:
            connection.execute(text(change))
    with database.tenant("one") as connection:
        owner = connection.execute(
            text("""
                SELECT r.rolname, r.rolcanlogin, p.prosecdef,
                    has_column_privilege(r.oid, 'messages', 'content', 'SELECT')
                FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner WHERE proname = 'keyword_search'
            """)
        ).one()
    assert tuple(owner) == ("backscroll_search", False, True, False)


# Thai has marks above its letters, which are parts of them.
UNITS = ["日", "本", "々", "カ", "ー", "が", "가", "나", "น", "นี้", "ວ", "か\u3099"]
OTHERS = ["a", "ß", "Я", "7", " ", "。", "、", "-", "\n", "\x02", "😀", "ㅋ"]


def pairs(parts: list[str]) -> list[str]:
    """The words of a text of these parts: runs of `UNITS` by overlapping pairs, one by itself, and the rest."""
    words, run, rest = [], list[str](), ""
    for part in [*parts, " "]:
        if part in UNITS:
            words += rest.split()
            run, rest = [*run, part], ""
        else:
            words += [a + b for a, b in pairwise(run)] if len(run) > 1 else run
            run, rest = [], rest + (f" {part} " if part == "😀" else " " if part in "。、\x02" else part)
    return words + rest.split()


@hypothesis_settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(UNITS + OTHERS), max_size=30))
def test_scripts_without_spaces_are_cut_into_overlapping_pairs(shared: Database, parts: list[str]) -> None:
    with shared.tenant(TENANT) as connection:
        cut = connection.scalar(text("SELECT pairs_of(words_apart(:content))"), {"content": "".join(parts)})
    assert cut.split() == pairs(parts)


@hypothesis_settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=80))
def test_the_words_of_two_languages_are_those_of_each(shared: Database, content: str) -> None:
    with shared.tenant(TENANT) as connection:
        of = {
            language: set(keyword_search.lexemes(connection, language, content))
            for language in ("german", "english", "german+english", "english+german")
        }
    assert of["german"] | of["english"] == of["german+english"] == of["english+german"]


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

        @hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
