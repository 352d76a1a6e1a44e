"""Searching a chat in each of its modes, and asking for more: what a bot's author relies on."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.ingest import accept
from pipeline.people.identities import link
from pipeline.recall import build_context, more, search
from pipeline.recall import search_modes as modes
from pipeline.store.connections.database import Database
from schemas.errors import NotFound
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery, parse_payload
from schemas.search import MoreQuery, SearchQuery, SearchResult
from schemas.settings import Settings
from tests.conftest import EPOCH, TENANT, copied, message, settings_of
from tests.harness.contexts import CHAT, DAY, do_all, house
from tests.waiting import rounds

OTHER = ChatIn(chat_id="test:elsewhere")
BOBS = "h1 h3 h7 h8 h11"


def boilers() -> list[MessageIn]:
    """Three more sessions about the boiler, on days 10, 20 and 30; an agent's thread; a text with wild cards."""
    texts = ("the boiler is out again", "did anybody call?", "yes, the boiler man comes at 9", "thanks")
    said = [
        message(day * DAY + n, text, id=f"b{day}-{n}", sender_name="Ann", sender_id="test:Ann")
        for day in (10, 20, 30)
        for n, text in enumerate(texts)
    ]
    key = {"session_key": "trip", "agent_id": "planner"}
    bot = {"role": "assistant", "sender_id": "test:bot", "metadata": {"tool": "calendar"}}
    return [
        *said,
        message(40 * DAY, "book the marina", id="k1", **key),
        message(40 * DAY + 1, "the marina is booked, boiler suit required", id="k2", **key, **bot),
        message(50 * DAY, "100%_Sure! É café\\o/ <script>", id="wild", sender_id="test:cy"),
    ]


@pytest.fixture(scope="module")
def stage(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The settings of one database for all tests of the module, which only read: two tenants, two chats."""
    with copied(postgres, "searches") as name:
        settings = settings_of(postgres, name, data_dir=tmp_path_factory.mktemp("data"))
        database = Database.from_settings(settings)
        accept.accept(database, TENANT, CHAT, [*house(), *boilers()])
        secret = [message(n, f"the boiler of somebody else {n}", id=f"s{n}") for n in range(5)]
        accept.accept(database, TENANT, OTHER, secret)
        accept.accept(database, "stranger", CHAT, secret)
        link(database, TENANT, "test:Bob", "bob")
        do_all(database)
        database.close()
        yield settings


@pytest.fixture
def settings(stage: Settings) -> Settings:
    return stage


@pytest.fixture(scope="module")
def database(stage: Settings) -> Iterator[Database]:
    database = Database.from_settings(stage)
    yield database
    database.close()


def find(
    database: Database, settings: Settings, query: str, *, embedder: bool = True, **fields: object
) -> SearchResult:
    asked = parse_payload(SearchQuery, {"chat_id": CHAT.chat_id, "query": query} | fields)
    return search(
        database, TENANT, asked, embedder=DeterministicEmbedder() if embedder else None, settings=settings
    )


def ids(found: SearchResult) -> list[str | None]:
    return [hit.external_id for hit in found.hits]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"sender_ids": ["test:Bob", "test:nobody"]}, BOBS),
        ({"user_id": "bob"}, BOBS),
        ({"user_id": "test:Bob", "sender_ids": ["test:Ann"]}, ""),
        ({"roles": ["assistant"]}, "k2"),
        ({"session_key": "trip"}, "k1 k2"),
        ({"metadata": {"tool": "calendar"}}, "k2"),
        ({"since": (EPOCH + timedelta(days=40)).isoformat(), "until": "2026-04-12T00:00:00Z"}, "k1 k2"),
        ({"metadata": {}}, ""),
    ],
    ids=str,
)
def test_filters_let_through_what_they_say_and_an_empty_one_nothing(
    database: Database, settings: Settings, fields: dict[str, object], expected: str
) -> None:
    of_these = set(expected.split())
    with_an_a = {m.external_id for m in [*house(), *boilers()] if "a" in m.content}
    for mode, hits in (("hybrid", of_these), ("similar", of_these), ("exact", of_these & with_an_a)):
        assert set(ids(find(database, settings, "a", mode=mode, limit=100, **fields))) == hits, mode


def test_exact_finds_the_very_characters_newest_first(database: Database, settings: Settings) -> None:
    found = find(database, settings, "BOILER MAN comes", mode="exact", embedder=False)
    assert ids(found) == ["b30-2", "b20-2", "b10-2"]
    assert not found.degraded
    for piece in ("100%_sure!", "é CAFÉ", "\\o/", "<script>"):
        assert ids(find(database, settings, piece, mode="exact")) == ["wild"], piece
    assert ids(find(database, settings, "100__", mode="exact")) == []


def test_exact_says_how_far_back_it_has_looked_and_goes_on_from_there(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes, "EXACT_SCANNED", 6)
    found = find(database, settings, "boiler", mode="exact")
    seen, windows = ids(found), 1
    for _ in rounds("the beginning is reached"):
        until = found.searched_back_to
        if until is None:
            break
        found = find(database, settings, "boiler", mode="exact", until=until.isoformat())
        seen, windows = seen + ids(found), windows + 1
    assert windows > 3
    monkeypatch.setattr(modes, "EXACT_SCANNED", 100_000)
    assert seen == ids(find(database, settings, "boiler", mode="exact", limit=100))


def test_contextual_shows_sessions_with_their_best_messages(database: Database, settings: Settings) -> None:
    found = find(database, settings, "boat trip marina", mode="contextual")
    assert not found.fell_back
    assert not found.hits
    best = found.sessions[0]
    assert best.summary is not None
    assert "boat" in best.summary
    assert [line.external_id for line in best.messages] == ["h4", "h5", "h6", "h7"]
    assert len(found.sessions) <= 3
    assert len(found.related) <= 2
    # every message once
    told = [line.id for session in found.sessions for line in session.messages]
    assert len(told) == len(set(told))


def test_a_theme_over_a_time_is_listed_in_order(database: Database, settings: Settings) -> None:
    found = find(
        database, settings, "boiler", mode="topic", since=EPOCH.isoformat(), until="2026-04-10T00:00:00Z"
    )
    starts = [hit.started_at for hit in found.sessions]
    assert starts == [EPOCH + timedelta(days=day) for day in (0, 10, 20, 30)]
    # without a window as well: the best of them, with what was said of it
    best = find(
        database, settings, "I've had a lot of trouble with the boiler, haven't I?", mode="topic", limit=3
    )
    assert [hit.started_at for hit in best.sessions] == starts[1:]
    assert sorted(hit.rank for hit in best.sessions) == [1, 2, 3]
    for hit in best.sessions:
        assert any("boiler" in line.text for line in hit.messages)
        assert all(line.score is not None for line in hit.messages)


def test_a_session_that_is_named_is_searched_alone(database: Database, settings: Settings) -> None:
    whole = find(database, settings, "boiler", mode="topic", limit=100)
    one = next(hit for hit in whole.sessions if hit.started_at == EPOCH + timedelta(days=20))
    for mode in ("hybrid", "similar", "exact"):
        found = find(database, settings, "boiler", mode=mode, session_id=one.session_id, limit=100)
        assert set(ids(found)) <= {f"b20-{n}" for n in range(4)}
        assert {hit.session_id for hit in found.hits} == {one.session_id}
    for mode in ("topic", "contextual"):
        found = find(database, settings, "boiler", mode=mode, session_id=one.session_id)
        assert [hit.session_id for hit in found.sessions] == [one.session_id]


@pytest.mark.parametrize("mode", ["hybrid", "similar", "topic", "contextual", "exact"])
def test_no_search_leaves_its_tenant_or_its_chat(database: Database, settings: Settings, mode: str) -> None:
    found = find(database, settings, "the boiler of somebody else", mode=mode, limit=100, min_similarity=0)
    texts = [hit.text for hit in found.hits]
    texts += [line.text for hit in found.sessions for line in hit.messages]
    texts += [hit.summary or "" for hit in (*found.sessions, *found.related)]
    assert not any("somebody else" in each for each in texts)
    elsewhere = SearchQuery(chat_id=OTHER.chat_id, query="boiler", mode="topic")
    theirs = search(database, TENANT, elsewhere, embedder=None, settings=settings).sessions[0].session_id
    with pytest.raises(NotFound, match="there is no session"):
        find(database, settings, "boiler", mode=mode, session_id=theirs)
    with pytest.raises(NotFound, match="there is no session"):
        more(
            database, TENANT, MoreQuery(chat_id=CHAT.chat_id, session_id=theirs, shown=[]), settings=settings
        )
    with pytest.raises(NotFound, match="there is no chat"):
        search(database, "nobody", elsewhere, embedder=None, settings=settings)


def test_where_a_chats_memory_is_off_nothing_is_searched(database: Database, settings: Settings) -> None:
    accept.accept(database, TENANT, ChatIn(chat_id="test:off", memory=False), [message(0, "котёл")])
    query = SearchQuery(chat_id="test:off", query="котёл", mode="exact")
    found = search(database, TENANT, query, embedder=None, settings=settings)
    assert not found.hits
    assert found.degraded == ["memory: it is off here, so nothing is searched"]


def test_more_tells_what_was_said_around_and_nothing_twice(database: Database, settings: Settings) -> None:
    # Given a context that showed one message of a session
    query = ContextQuery(
        chat_id=CHAT.chat_id,
        query="we take the plumber from Almada for 240 euros",
        include_history=False,
        explain=True,
        parameters={"messages": 1},
    )
    answer = build_context(database, TENANT, query, embedder=DeterministicEmbedder(), settings=settings)
    hit = answer.explain.messages[0]
    assert (hit.external_id, hit.session_id is not None) == ("h2", True)
    asked = {"chat_id": CHAT.chat_id, "session_id": hit.session_id, "shown": [hit.id], "limit": 2}
    first = more(database, TENANT, parse_payload(MoreQuery, asked), settings=settings)
    assert [line.external_id for line in first.messages] == ["h1", "h3"]
    assert first.remaining == 1
    assert first.next is not None
    second = more(database, TENANT, first.next, settings=settings)
    # Then what was said nearest comes first, and the end is told
    assert [line.external_id for line in second.messages] == ["h0"]
    assert (second.remaining, second.next) == (0, None)
