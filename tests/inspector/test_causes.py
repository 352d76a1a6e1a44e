"""From a wrong answer in the query log to its cause, in three clicks at most."""

from collections.abc import Iterator

import httpx
import pytest

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from schemas.settings import Settings
from tests.api.conftest import served
from tests.commands.conftest import Workers
from tests.conftest import TENANT, message
from tests.inspector.conftest import Page, logged_in

CHAT = "test:wrong"


@pytest.fixture
def api(settings: Settings) -> Iterator[httpx.Client]:
    with served(settings) as client:
        yield client


def tell(database: Database, *texts: str) -> None:
    said = [message(hour * 60, text) for hour, text in enumerate(texts)]
    accept.accept(database, TENANT, ChatIn(chat_id=CHAT, title="Équipe"), said)


def ask(api: httpx.Client, question: str) -> None:
    asked = {"chat_id": CHAT, "query": question, "user_id": "test:ann"}
    assert api.post("/v1/context", json=asked).status_code == 200


def assert_leads_to(api: httpx.Client, cause: str, *clicks: str) -> None:
    """Go from the query log on by links with these texts: the cause is on the last page and on none before it."""
    with logged_in(api) as client:
        page = client.get("/inspect/queries")
        for wanted in clicks:
            assert cause not in Page(page.text).text
            href = next(href for href, text in Page(page.text).links if wanted in text)
            page = client.get(href, follow_redirects=True)
            assert page.status_code == 200
    assert cause in Page(page.text).text


def test_two_clicks_lead_from_an_answer_to_the_fact_that_is_no_longer_believed(
    api: httpx.Client, database: Database, workers: Workers
) -> None:
    tell(database, "Ann: hi")
    given = {"scope": "user", "user_id": "test:ann", "content": "Ann lives in Porto", "learned_in": CHAT}
    made = api.post("/v1/memories", json=given)
    assert made.status_code == 201
    workers.finish()
    ask(api, "Where does Ann live?")
    correction = {"content": "Ann lives in Łódź"}
    assert api.post(f"/v1/memories/{made.json()['id']}/correct", json=correction).status_code == 200
    assert_leads_to(api, "Ann lives in Łódź", "Where does Ann live?", "memory")


def test_three_clicks_lead_from_an_answer_to_the_session_that_was_never_summarized(
    api: httpx.Client, database: Database, workers: Workers
) -> None:
    tell(database, *("we choose the blue tiles for the kitchen", "قررنا اللون الأزرق", "oui, bleu") * 3)
    for kind in ("ingest", "embed"):
        workers.finish(kind)
    ask(api, "Which colour do we take?")
    assert_leads_to(api, "it was never made", "Which colour do we take?", "Équipe", "2026-03-02")
