"""Embedding what is owed: full batches of like length, and a text that breaks the model takes no other with it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from operator import mul
from threading import Thread

import psycopg
import pytest
from structlog.testing import capture_logs

from ops.local.embedded.postgres import EmbeddedPostgres
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich.vectors import embed, embed_texts
from pipeline.erasure import edits
from pipeline.ingest import accept
from pipeline.ingest.policy import SessionPolicy
from pipeline.jobs import runner
from pipeline.jobs.dead_letters import JobFilter, listing
from pipeline.jobs.runner import Outcome, Policy
from pipeline.store.connections.database import Database
from pipeline.store.search import vector_search
from pipeline.store.search.filters import Scope
from pipeline.store.vectors import vectors
from schemas.errors import ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector
from tests.conftest import TENANT, message
from tests.ingest.test_accepting import wait_for_a_lock
from tests.ingest.test_quarantine import as_owner
from tests.test_pipeline import CHAT, place, rows

POISON = "aconite"


class Model(DeterministicEmbedder):
    """Fails at texts in which a word stands, in the way that is asked for; remembers what it was given."""

    def __init__(self, fail: Callable[[list[Vector]], list[Vector]], word: str = POISON) -> None:
        super().__init__()
        self.word = word
        self.fail = fail
        self.calls: list[list[str]] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.calls.append(list(texts))
        made = super().embed_documents(texts)
        return self.fail(made) if any(self.word in each for each in texts) else made


def raising(error: Exception) -> Callable[[list[Vector]], list[Vector]]:
    def fail(_: list[Vector]) -> list[Vector]:
        raise error

    return fail


def owe(database: Database, rules: SessionPolicy, policy: Policy, *contents: str) -> None:
    """Messages of these contents that are placed and owed their vectors."""
    said = [message(n / 10, content, id=f"m{n}") for n, content in enumerate(contents)]
    accept.accept(database, TENANT, CHAT, said)
    place(database, rules, policy)


def embed_once(database: Database, client: DeterministicEmbedder, policy: Policy) -> Outcome:
    return runner.run(database, "embed", embed.embedder(database, client), policy)


def embedded(database: Database) -> list[object]:
    found = rows(
        database, "SELECT external_id FROM messages JOIN message_vectors ON message_id = id ORDER BY id"
    )
    return [row[0] for row in found]


FAILURES = {
    "says that it failed": raising(ProviderFailed("it answers 500")),
    "refuses it": raising(ProviderRejected("it is not allowed")),
    "no number": lambda made: [[float("nan")] * len(vector) for vector in made],
    "too few": lambda made: made[:-1],
}


@pytest.mark.parametrize("how", FAILURES)
def test_one_text_that_breaks_the_model_is_a_dead_letter_and_all_others_have_vectors(
    database: Database, rules: SessionPolicy, policy: Policy, how: str
) -> None:
    count = 32
    # Given one poisonous text among many
    contents = [f"message number {n}" for n in range(count)]
    contents[count // 3] = f"some {POISON} for you"
    owe(database, rules, policy, *contents)
    model = Model(FAILURES[how])
    embed_once(database, model, policy)
    # Then all others have their vectors, and it waits for an operator with its reason
    assert len(embedded(database)) == count - 1
    [letter], _ = listing(database, TENANT, JobFilter(state="dead"))
    assert letter.kind == "embed"
    assert (letter.error or "").startswith("ProviderRejected: ")
    # and it took about log2 n calls to find it, beside one for each portion and the probes
    assert len(model.calls) <= count / embed.PORTION + 2 * count.bit_length() + 5
    # nothing is tried again
    assert embed_once(database, model, policy).claimed == 0


def test_a_text_that_is_too_long_for_the_model_is_embedded_by_its_beginning_and_the_others_whole(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    ending = "z" * 8
    long = f"{'word ' * 300}{ending}"
    owe(database, rules, policy, *[f"{'other ' * 250}{n}" for n in range(7)], long)
    model = Model(raising(ProviderFailed("too long")), word=ending)
    embed_once(database, model, policy)
    assert len(embedded(database)) == 8
    assert [len(call[0]) for call in model.calls if len(call[0]) == embed_texts.SHORTENED_CHARS] == [1000]
    assert rows(database, "SELECT count(*) FROM jobs WHERE dead_at IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("error", [ProviderUnavailable("no answer"), ProviderFailed("it answers 500")])
def test_an_outage_costs_two_calls_and_no_attempts(
    database: Database, rules: SessionPolicy, policy: Policy, error: Exception
) -> None:
    owe(database, rules, policy, *(f"message number {n}" for n in range(40)))
    model = Model(raising(error), word="")
    outcome = embed_once(database, model, policy)
    assert (outcome.finished, outcome.failed) == (0, 40)
    assert len(model.calls) <= 2
    found = rows(
        database,
        "SELECT max(attempts), count(due_at), count(dead_at), min(last_error) FROM jobs WHERE kind = 'embed'",
    )
    assert [row[:3] for row in found] == [(0, 40, 0)]
    assert str(found[0][3]).startswith("ProviderUnavailable: ")


def test_an_outage_that_begins_while_a_bad_text_is_looked_for_condemns_nobody(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    owe(database, rules, policy, *(f"message number {n}" for n in range(8)), f"some {POISON}")
    model = Model(raising(ProviderFailed("it answers 500")))

    def break_down(_: list[Vector]) -> list[Vector]:
        if len(model.calls) > 3:
            model.word = ""
        raise ProviderFailed("it answers 500")

    model.fail = break_down
    embed_once(database, model, policy)
    assert rows(database, "SELECT max(attempts), count(dead_at) FROM jobs WHERE kind = 'embed'") == [(0, 0)]


def test_what_people_say_now_reaches_the_model_before_the_rest_of_a_claim(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    # Given more imported messages than the model is given at once, each longer than the live one
    imported = [message(n / 10, f"imported message number {n}", id=f"i{n}") for n in range(embed.PORTION + 1)]
    accept.accept(database, TENANT, CHAT, imported, settle=timedelta(seconds=1))
    accept.accept(database, TENANT, CHAT, [message(60, "now", id="live")])
    place(database, rules, policy)
    client = Model(raising(AssertionError()))
    embed_once(database, client, policy)
    assert any("now" in each for each in client.calls[0])


def test_a_claim_that_takes_too_long_is_handed_back_in_part_and_nothing_of_it_is_lost(
    database: Database, rules: SessionPolicy, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a model that takes longer for a portion than a turn lasts
    monkeypatch.setattr(embed, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(embed, "PORTION", 4)
    owe(database, rules, policy, *(f"message number {n}" for n in range(10)))
    # When it has had its turn, then there are the vectors of one portion, and the rest is due, untried
    first = embed_once(database, DeterministicEmbedder(), policy)
    assert first.follows == {"embed"}
    assert len(embedded(database)) == 4
    due = "SELECT count(*), max(attempts) FROM jobs WHERE kind = 'embed' AND due_at <= now() AND claimed IS NULL"
    assert rows(database, due) == [(6, 0)]
    # and it is done in the next turns
    assert embed_once(database, DeterministicEmbedder(), policy).claimed == 6
    assert embed_once(database, DeterministicEmbedder(), policy).claimed == 2
    assert len(embedded(database)) == 10
    assert rows(database, "SELECT count(*) FROM jobs WHERE kind = 'embed' AND due_at IS NOT NULL") == [(0,)]


class Meanwhile(DeterministicEmbedder):
    """Lets something happen while it works, once."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act = act

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        act, self.act = self.act, lambda: None
        act()
        return super().embed_documents(texts)


def test_a_message_that_is_deleted_before_it_was_embedded_is_no_failure(
    database: Database, rules: SessionPolicy, policy: Policy
) -> None:
    owe(database, rules, policy, "one", "two", "three")
    client = Meanwhile(lambda: edits.delete(database, TENANT, CHAT.chat_id, "m1", rules))
    with capture_logs() as logs:
        assert embed_once(database, client, policy).failed == 0
    assert embedded(database) == ["m0", "m2"]
    assert not [line for line in logs if line["log_level"] in ("warning", "error")]
    assert rows(database, "SELECT name FROM daily_counters WHERE name = 'embed_failures' AND value > 0") == []
    # the others were not embedded twice
    assert rows(database, "SELECT sum(value) FROM daily_counters WHERE name = 'embedding_writes'") == [(2,)]
    assert rows(database, "SELECT count(*) FROM jobs WHERE kind = 'embed'") == [(0,)]


def test_a_deletion_that_is_under_way_while_vectors_are_saved_is_waited_for(
    database: Database, rules: SessionPolicy, policy: Policy, postgres: EmbeddedPostgres, database_name: str
) -> None:
    owe(database, rules, policy, "one", "two", "three")
    with psycopg.connect(postgres.superuser_dsn(database_name)) as rival:
        rival.execute("DELETE FROM messages WHERE external_id = 'm1'")
        rival.execute(
            "DELETE FROM jobs WHERE key = (SELECT 'message:' || id FROM messages WHERE external_id = 'm1')"
        )
        saving = Thread(target=lambda: embed_once(database, DeterministicEmbedder(), policy))
        saving.start()
        with psycopg.connect(postgres.superuser_dsn(database_name), autocommit=True) as observer:
            wait_for_a_lock(observer)
        rival.commit()
        saving.join()
    assert embedded(database) == ["m0", "m2"]
    assert rows(database, "SELECT name FROM daily_counters WHERE name = 'embed_failures' AND value > 0") == []


# What cosines stand for


class Mine(DeterministicEmbedder):
    """A model that nobody knows, whose cosines nobody has looked at."""

    space = EmbeddingSpace(provider="sentence-transformers", model="mine", dimensions=256)


def test_the_first_worker_measures_what_cosines_stand_for_and_searches_give_them_on_one_scale(
    database: Database, settings: Settings, rules: SessionPolicy, policy: Policy
) -> None:
    as_owner(settings, "UPDATE embedding_spaces SET provider = 'sentence-transformers', model = 'mine'")
    asked, said = "where is the boat key?", "Bo left some key in the yard, maybe behind the shed"
    owe(database, rules, policy, said, "Где ключ?")
    embed_once(database, Mine(), policy)
    with database.tenant(TENANT) as connection:
        space = vectors.active_space(connection)
        assert space.questions.slope != pytest.approx(1, abs=0.1)
        scope = Scope(chat_id=CHAT.chat_id, language="english")
        found = vector_search.nearest(
            connection, scope, space, Mine().embed_query(asked), messages=2, limit=2
        )
        stored = vectors.of_messages(connection, space, list(found.cosines))
    slope, height = space.questions.slope, space.questions.height
    nearest = next(iter(found.cosines))
    raw = sum(map(mul, Mine().embed_query(asked), stored[nearest]))
    assert found.cosines[nearest] == pytest.approx(height + slope * raw, abs=0.01)
    assert found.cosines[nearest] != pytest.approx(raw, abs=0.05)
