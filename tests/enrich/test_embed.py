"""Embedding what is owed: full batches of like length, and a text that breaks the model takes no other with it."""

from collections.abc import Callable, Sequence
from operator import mul

import pytest

from ops.local import migrate
from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.clients.factory import make_embedder
from pipeline.enrich import embed, embed_texts
from pipeline.erasure import edits
from pipeline.jobs import runner
from pipeline.jobs.dead_letters import JobFilter, listing
from pipeline.jobs.runner import Outcome
from pipeline.llm.ledger import Price, Prices
from pipeline.store import vectors
from pipeline.store.connections.database import Database
from pipeline.store.search import vector_search
from pipeline.store.search.filters import Scope
from schemas.errors import ProviderFailed
from schemas.settings import Settings
from schemas.vectors import EmbeddingSpace, Vector
from tests.clients.embedding_server import embedding_server
from tests.conftest import POLICY, SESSION_POLICY, TENANT
from tests.harness.pipeline import CHAT, Meanwhile, rows, say
from tests.harness.refusals import as_owner

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


def embed_once(database: Database, client: DeterministicEmbedder) -> Outcome:
    return runner.run(database, "embed", embed.embedder(database, client), POLICY)


def embedded(database: Database) -> list[object]:
    found = rows(
        database, "SELECT external_id FROM messages JOIN message_vectors ON message_id = id ORDER BY id"
    )
    return [row[0] for row in found]


def test_one_text_that_breaks_the_model_takes_no_other_with_it(database: Database) -> None:
    count = 32
    # Given one poisonous text among many
    contents = [f"message number {n}" for n in range(count)]
    contents[count // 3] = f"some {POISON} for you"
    say(database, *contents)
    model = Model(lambda made: [[float("nan")] * len(vector) for vector in made])
    embed_once(database, model)
    # Then all others have their vectors, and it waits for an operator with its reason
    assert len(embedded(database)) == count - 1
    [letter], _ = listing(database, TENANT, JobFilter(state="dead"))
    assert letter.kind == "embed"
    assert (letter.error or "").startswith("ProviderRejected: ")
    # and it took about log2 n calls to find it, beside one for each portion and the probes
    assert len(model.calls) <= count / embed.PORTION + 2 * count.bit_length() + 5
    # nothing is tried again
    assert embed_once(database, model).claimed == 0


def test_a_text_too_long_for_the_model_is_embedded_by_its_beginning(database: Database) -> None:
    ending = "z" * 8
    long = f"{'word ' * 300}{ending}"
    say(database, *[f"{'other ' * 250}{n}" for n in range(7)], long)
    model = Model(raising(ProviderFailed("too long")), word=ending)
    embed_once(database, model)
    assert len(embedded(database)) == 8
    assert [len(call[0]) for call in model.calls if len(call[0]) == embed_texts.SHORTENED_CHARS] == [1000]
    assert rows(database, "SELECT count(*) FROM jobs WHERE dead_at IS NOT NULL") == [(0,)]


def test_an_outage_costs_two_calls_and_no_attempts(database: Database) -> None:
    say(database, *(f"message number {n}" for n in range(40)))
    model = Model(raising(ProviderFailed("it answers 500")), word="")
    outcome = embed_once(database, model)
    assert (outcome.finished, outcome.failed) == (0, 40)
    assert len(model.calls) <= 2
    found = rows(
        database,
        "SELECT max(attempts), count(due_at), count(dead_at), min(last_error) FROM jobs WHERE kind = 'embed'",
    )
    assert [row[:3] for row in found] == [(0, 40, 0)]
    assert str(found[0][3]).startswith("ProviderUnavailable: ")


def test_a_claim_that_takes_too_long_is_handed_back_in_part_and_nothing_of_it_is_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a model that takes longer for a portion than a turn lasts
    monkeypatch.setattr(embed, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(embed, "PORTION", 4)
    say(database, *(f"message number {n}" for n in range(10)))
    # When it has had its turn, then there are the vectors of one portion, and the rest is due, untried
    first = embed_once(database, DeterministicEmbedder())
    assert first.follows == {"embed"}
    assert len(embedded(database)) == 4
    due = "SELECT count(*), max(attempts) FROM jobs WHERE kind = 'embed' AND due_at <= now() AND claimed IS NULL"
    assert rows(database, due) == [(6, 0)]
    # and it is done in the next turns
    assert embed_once(database, DeterministicEmbedder()).claimed == 6
    assert embed_once(database, DeterministicEmbedder()).claimed == 2
    assert len(embedded(database)) == 10
    assert rows(database, "SELECT count(*) FROM jobs WHERE kind = 'embed' AND due_at IS NOT NULL") == [(0,)]


def test_a_message_that_is_deleted_before_it_was_embedded_is_no_failure(database: Database) -> None:
    say(database, "one", "two", "three")
    client = Meanwhile(lambda: edits.delete(database, TENANT, CHAT.chat_id, "m1", SESSION_POLICY))
    assert embed_once(database, client).failed == 0
    assert embedded(database) == ["m0", "m2"]
    # the others were not embedded twice
    assert rows(database, "SELECT sum(value) FROM daily_counters WHERE name = 'embedding_writes'") == [(2,)]
    assert rows(database, "SELECT count(*) FROM jobs WHERE kind = 'embed'") == [(0,)]


# What cosines stand for


class Mine(DeterministicEmbedder):
    """A model that nobody knows, whose cosines nobody has looked at."""

    space = EmbeddingSpace(provider="sentence-transformers", model="mine", dimensions=256)


def test_the_first_worker_measures_what_cosines_stand_for_and_searches_give_them_on_one_scale(
    database: Database, settings: Settings
) -> None:
    as_owner(settings, "UPDATE embedding_spaces SET provider = 'sentence-transformers', model = 'mine'")
    asked, said = "where is the boat key?", "Bo left some key in the yard, maybe behind the shed"
    say(database, said, "Где ключ?")
    embed_once(database, Mine())
    with database.tenant(TENANT) as connection:
        space = vectors.active_space(connection)
        assert space.questions.slope != pytest.approx(1, abs=0.1)
        scope = Scope(chat_id=CHAT.chat_id, language="english")
        found = vector_search.nearest(
            connection, scope, space, Mine().embed_query(asked), messages=2, limit=2
        )
        stored = vectors.of_messages(connection, space, CHAT.chat_id, list(found.cosines))
    slope, height = space.questions.slope, space.questions.height
    nearest = next(iter(found.cosines))
    raw = sum(map(mul, Mine().embed_query(asked), stored[nearest]))
    assert found.cosines[nearest] == pytest.approx(height + slope * raw, abs=0.01)
    assert found.cosines[nearest] != pytest.approx(raw, abs=0.05)


def test_what_a_server_embeds_is_noted_with_its_price(database: Database, settings: Settings) -> None:
    say(database, "the plumber is called Beatriz", "the boiler is new")
    prices = Prices(by_model={"mine": Price(input=100.0)})
    named = {"embedding_provider": "ollama", "embedding_model": "mine"}
    with embedding_server() as server:
        client = make_embedder(settings.model_copy(update=named | {"ollama_url": server.url}))
        as_owner(settings, "UPDATE embedding_spaces SET status = 'retired'")
        migrate.upgrade(settings.owner_database_url.get_secret_value(), client.space)
        for server.fault in ("overloaded", None):
            runner.run(database, "embed", embed.embedder(database, client, prices=prices), POLICY)
            rows(database, "UPDATE jobs SET due_at = now() WHERE due_at IS NOT NULL")
        client.close()
    failed, answered = rows(
        database, "SELECT purpose, model, outcome, input_tokens, cost FROM llm_calls ORDER BY id"
    )
    assert failed == ("embedding", "mine", "unavailable", 0, 0)
    *what, tokens, cost = answered
    assert what == ["embedding", "mine", "answered"]
    assert 10 < tokens < 40
    assert cost == pytest.approx(tokens * 100 / 1_000_000)
