"""What kills its worker every time is given up after as many tries as are configured, and takes nothing with it."""

from collections.abc import Iterator

import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.processes import ROOT
from pipeline.jobs import dead_letters
from pipeline.jobs.dead_letters import JobFilter
from tests.conftest import TENANT
from tests.ops.running import until
from tests.processes import venom
from tests.processes.conftest import SECONDS, Deployment, clock, deployed, talk

TRIES = 3
CHAT, OTHER = "test:poison", "test:beside"


@pytest.fixture(scope="module")
def poisoned(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment of its own with workers that can die of what they are given, and with few attempts."""
    with deployed(postgres, tmp_path_factory.mktemp("poisoned"), "poisoned") as deployment:
        deployment.start_workers(
            names=("accept", "ingest", "embed", "summarize", "sweep"),
            include="tests.processes.poison",
            BACKSCROLL_JOB_MAX_ATTEMPTS=str(TRIES),
            BACKSCROLL_SUMMARIZE_DEBOUNCE_SECONDS="1",
            PYTHONPATH=str(ROOT),
        )
        with clock(deployment):
            yield deployment


@pytest.fixture(scope="module")
def given(poisoned: Deployment) -> Deployment:
    """Poison of each kind among other messages, tried until each is given up."""
    told = talk(15)
    told[7] |= {"sender_name": venom.PLACED_BY}
    told[2] |= {"content": f"Some {venom.EMBEDDED} for you."}
    told[12] |= {"content": f"Some {venom.SUMMARIZED} for you."}
    poisoned.accept(CHAT, told)
    poisoned.accept(OTHER, talk(15))

    def given_up() -> bool:
        # a worker of threads dies as a whole, and its supervisor starts it again
        poisoned.revive()
        return len(dead(poisoned)) == 3

    poisoned.until(given_up, "all three are given up", 2 * SECONDS)
    return poisoned


def dead(deployment: Deployment) -> dict[str, tuple[str, int]]:
    """`{kind: (error, attempts)}` of what was given up of the chat."""
    rows = deployment.query("SELECT kind, last_error, attempts FROM jobs WHERE dead_at IS NOT NULL")
    aside = deployment.query("SELECT 'arrival', error, 0 FROM arrivals WHERE quarantined_at IS NOT NULL")
    return {kind: (error, attempts) for kind, error, attempts in [*rows, *aside]}


def test_each_is_dead_after_as_many_tries_as_are_configured(given: Deployment) -> None:
    found = dead(given)
    assert found["embed"] == ("the worker died or hung every time", TRIES)
    assert found["summarize"] == ("the worker died or hung every time", TRIES)
    assert found["arrival"][0] == f"the process that placed it died each time, {TRIES} tries"


def test_nothing_else_is_given_up_or_left_undone(given: Deployment) -> None:
    def done() -> bool:
        given.revive()
        return not given.query("SELECT 1 FROM jobs WHERE due_at IS NOT NULL")

    until(done, "the rest is done", SECONDS)
    assert set(given.vectors_of(OTHER).values()) == {1}
    vectors = given.vectors_of(CHAT)
    assert sorted(name for name, count in vectors.items() if count != 1) == ["m2", "m7"]
    sessions = given.query(
        "SELECT status, message_count FROM conversation_sessions WHERE chat_id = :chat ORDER BY started_at",
        chat=CHAT,
    )
    # the second session lacks the message that stands aside, the third its summary
    assert [(row.status, row.message_count) for row in sessions][:2] == [("summarized", 5), ("summarized", 4)]
    burnt = given.query("SELECT kind, key, attempts FROM jobs WHERE attempts > 0 AND dead_at IS NULL")
    assert burnt == []


def test_its_chat_goes_on(given: Deployment) -> None:
    later = [message | {"external_id": f"later-{n}"} for n, message in enumerate(talk(25)[20:])]
    given.accept(CHAT, later)

    def placed() -> bool:
        given.revive()
        return not given.query("SELECT 1 FROM arrivals WHERE quarantined_at IS NULL")

    until(placed, "later messages are placed", SECONDS)


def test_a_payload_that_kills_stands_aside_as_it_came_and_others_are_accepted(poisoned: Deployment) -> None:
    poison_pill = talk(3, word=venom.ACCEPTED)
    poisoned.send("test:pill", poison_pill)
    poisoned.send("test:after-the-pill", talk(5))
    until(lambda: len(poisoned.dead_letters()) == 1, "the payload stands aside", 2 * SECONDS)
    (letter,) = poisoned.dead_letters()
    assert letter["kwargs"]["messages"] == poison_pill
    killed = [r["tries"] for r in poisoned.records("accept") if r["event"] == "payload_kills"]
    assert killed == [TRIES]
    until(lambda: poisoned.progress("test:after-the-pill").messages == 5, "others are accepted", SECONDS)
    assert poisoned.progress("test:pill").messages == 0
    [dead], _ = dead_letters.listing(poisoned.database, TENANT, JobFilter(kind="payload"))
    assert dead.error == f"version 1, 3 messages: its process ended {TRIES} times"
    assert poisoned.query("SELECT 1 FROM jobs WHERE starts_with(key, 'payload:')") == []
