"""From a wrong answer in the query log to its cause, in three clicks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.api.conftest import served
from tests.commands.conftest import Workers
from tests.conftest import TENANT, message
from tests.inspector.conftest import logged_in
from tests.inspector.test_pages import Page

CHAT = "test:wrong"


@pytest.fixture
def api(settings: Settings) -> Iterator[httpx.Client]:
    with served(settings) as client:
        yield client


@dataclass(frozen=True)
class Wrong:
    """A wrong answer that is planted, and where its cause is."""

    question: str
    # accepts messages, has some of the work done
    plant: Callable[[httpx.Client, Database, Workers], None]
    # what somebody would click on after the question: a part of each link's text
    clicks: tuple[str, ...]
    cause: str
    # what comes to light after the answer
    later: Callable[[httpx.Client], None] = lambda _: None


def tell(database: Database, *texts: str) -> None:
    said = [message(hour * 60, text) for hour, text in enumerate(texts)]
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT, title="Équipe"), said)


def moved_house(api: httpx.Client, database: Database, workers: Workers) -> None:
    tell(database, "Ann: hi")
    workers.finish()
    given = {"scope": "user", "user_id": "test:ann", "content": "Ann lives in Porto", "learned_in": CHAT}
    assert api.post("/v1/memories", json=given).status_code == 201
    workers.finish()


def corrected(api: httpx.Client) -> None:
    (memory,) = api.get("/v1/memories", params={"user_id": "test:ann"}).json()["memories"]
    given = {"content": "Ann lives in Łódź"}
    assert api.post(f"/v1/memories/{memory['id']}/correct", json=given).status_code == 200


def not_summarized(_: httpx.Client, database: Database, workers: Workers) -> None:
    tell(database, *("we choose the blue tiles for the kitchen", "قررنا اللون الأزرق", "oui, bleu") * 3)
    for kind in ("ingest", "embed"):
        workers.finish(kind)


WRONG = {
    "a superseded fact": Wrong(
        "Where does Ann live?", moved_house, ("memory",), "Ann lives in Łódź", later=corrected
    ),
    "a chat that was never summarized": Wrong(
        "Which colour do we take?", not_summarized, ("Équipe", "2026-03-02"), "it was never made"
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_three_clicks_lead_from_a_wrong_answer_to_its_cause(
    api: httpx.Client, database: Database, workers: Workers, wrong: Wrong
) -> None:
    # Given an answer that is wrong, or missing
    wrong.plant(api, database, workers)
    asked = {"chat_id": CHAT, "query": wrong.question, "user_id": "test:ann"}
    assert api.post("/v1/context", json=asked).status_code == 200
    wrong.later(api)
    # When an operator goes from the query log on, link by link
    with logged_in(api) as client:
        page, clicks = client.get("/inspect/queries"), 0
        for wanted in (wrong.question, *wrong.clicks):
            assert wrong.cause not in Page(page.text).text
            href = next(href for href, text in Page(page.text).links if wanted in text)
            page, clicks = client.get(href, follow_redirects=True), clicks + 1
            assert page.status_code == 200
    # Then the cause is there, after three clicks at most
    assert wrong.cause in Page(page.text).text
    assert clicks <= 3
