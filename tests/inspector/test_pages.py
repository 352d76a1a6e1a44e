"""What the pages tell, whatever is stored; jobs and backfills as an operator changes them."""

from urllib.parse import quote, urldefrag, urljoin

import httpx
from sqlalchemy import text

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from pipeline.store.operations import stats
from pipeline.store.operations.stats import RunningProcess
from schemas.messages import ChatIn
from tests.commands.conftest import CHAT
from tests.conftest import TENANT, message
from tests.harness.pipeline import rows
from tests.inspector.conftest import EVIL, HOSTILE, SCRIPT, Page, logged_in
from tests.waiting import rounds

Standing = tuple[httpx.Client, Database]


def test_every_link_of_every_page_leads_to_a_page(standing: Standing) -> None:
    api, _ = standing
    api.post("/v1/context", json={"chat_id": CHAT, "query": "Wer hat Gerald gefüttert? 谁?"})
    with logged_in(api) as client:
        waiting, known = ["/inspect/chats"], {"/inspect/chats"}
        while waiting:
            path = waiting.pop()
            answered = client.get(path, follow_redirects=True)
            assert answered.status_code == 200, path
            if answered.headers["content-type"].startswith("text/html"):
                links = {urldefrag(urljoin(path, href))[0] for href, _ in Page(answered.text).links}
                links = {link for link in links if link.startswith("/inspect") and "/messages/" not in link}
                waiting += links - known
                known |= links
    assert len(known) > 20


def test_what_people_wrote_is_text_on_every_page(standing: Standing) -> None:
    api, database = standing
    memory = {"scope": "user", "user_id": "test:ann", "content": f"{SCRIPT} \u202emarkup"}
    assert api.post("/v1/memories", json=memory).status_code == 201
    api.post("/v1/context", json={"chat_id": EVIL, "query": SCRIPT, "user_id": "test:ann"})
    accept.accept(database, TENANT, ChatIn(chat_id="evil:2", title=SCRIPT), [message(0, SCRIPT)])
    evil = quote(EVIL, safe="")
    with logged_in(api) as client:
        log = Page(client.get("/inspect/queries").text)
        chat = Page(client.get(f"/inspect/chats/{evil}").text)
        session = next(href for href, _ in chat.links if href.startswith("/inspect/sessions/"))
        why = next(href for href, _ in log.links if href.startswith("/inspect/queries/"))
        paths = ("/inspect/chats", session, why, f"/inspect/chats/{evil}", "/inspect/people/test%3Aann")
        for path in (*paths, "/inspect/queries", "/inspect/jobs?state=pending", f"/inspect/chats/{SCRIPT}"):
            answered = client.get(path)
            page = Page(answered.text)
            assert answered.status_code in {200, 404}
            assert not page.dangers, path
            assert not set("\x1b\x07\u202e\u2067") & set(answered.text), path
        shown = Page(client.get(session).text).text
        for said in (SCRIPT, HOSTILE[3], HOSTILE[4], HOSTILE[6]):
            assert said in shown
        asked = Page(client.post("/inspect/ask", data={"query": SCRIPT, "chat_id": EVIL}).text)
        assert not asked.dangers
        assert SCRIPT in asked.text


def test_chats_are_found_by_a_part_of_their_name_and_paged_by_id(standing: Standing) -> None:
    api, database = standing
    for number in range(60):
        chat = ChatIn(chat_id=f"many:{number:03}", title=f"Ünï {number}")
        accept.accept(database, TENANT, chat, [message(0)])
    with logged_in(api) as client:
        assert "Harbour House" in client.get("/inspect/chats?name=HARBOUR").text
        assert "Harbour House" in client.get("/inspect/chats?name=telegram:-1").text
        seen, path = [], "/inspect/chats?name=ünï"
        for _ in rounds("there is a last page"):
            page = Page(client.get(path).text)
            seen += [href for href, _ in page.links if "many" in href and "?" not in href]
            path = next((href for href, text in page.links if "Next" in text), "")
            if not path:
                break
        assert seen == [f"/inspect/chats/many%3A{number:03}" for number in range(60)]


def test_the_query_log_says_how_surely_each_context_answers(standing: Standing) -> None:
    api, _ = standing
    asked = {"chat_id": CHAT, "query": "Where did Olek find his key?"}
    answer = api.post("/v1/context", json=asked).json()
    with logged_in(api) as client:
        log = Page(client.get("/inspect/queries").text)
        shown = Page(client.get(f"/inspect/queries/{answer['context_id']}").text)
    assert "evidence" in log.text
    assert f"evidence {answer['evidence']}" in shown.text
    (listed, *_) = api.get("/v1/queries").json()["queries"]
    assert listed["evidence"] == answer["evidence"] != "none"


def test_the_query_log_is_on_each_chats_clock_and_tells_the_forgotten_from_the_empty(
    standing: Standing,
) -> None:
    api, database = standing
    asked = {"chat_id": CHAT, "query": "Where did Olek find his key?"}
    contexts = [api.post("/v1/context", json=asked).json()["context_id"] for _ in range(2)]
    with database.tenant(TENANT) as connection:
        connection.execute(
            text(
                "UPDATE query_log SET shown = '{}', asked_at = '2026-05-30 22:30Z',"
                " redacted_at = CASE WHEN context_id = :one THEN now() END WHERE context_id IN (:one, :other)"
            ),
            {"one": contexts[0], "other": contexts[1]},
        )
    with logged_in(api) as client:
        log = client.get("/inspect/queries", params={"chat_id": CHAT}).text
        # an emptied field chooses all
        for path in ("/inspect/queries", "/inspect/ask"):
            assert client.get(path, params={"chat_id": ""}).status_code == 200
    # in Lisbon it was half past eleven
    assert log.count("2026-05-30 23:30") == 2
    assert log.count(">forgotten since<") == log.count(">empty<") == 1


def test_a_chat_is_chosen_by_its_title_and_searched_on_its_page(standing: Standing) -> None:
    api, _ = standing
    with logged_in(api) as client:
        for path in ("/inspect/ask", "/inspect/queries"):
            assert f'<option value="{CHAT}">Harbour House</option>' in client.get(path).text
        place = f"/inspect/chats/{quote(CHAT, safe='')}"
        assert "<h2>Found" not in client.get(place, params={"words": " "}).text
        found = client.get(place, params={"words": "cello case"}).text
        assert "in the pocket for the rosin" in found.partition("Memory of this chat")[0]
        assert client.get(place, params={"words": "x" * 8001}).status_code == 422


def test_asking_for_an_inspection_is_not_recorded(standing: Standing) -> None:
    with logged_in(standing[0]) as client:
        before = client.get("/inspect/queries").text
        given = {"query": "Where did Olek find his key?", "chat_id": CHAT, "budget_tokens": "600"}
        page = client.post("/inspect/ask", data=given).text
        assert "in the pocket for the rosin" in page
        assert "As the model sees it" in page
        assert "Messages found" in page
        early = client.post("/inspect/ask", data=given | {"as_of": "2026-03-10 12:00"}).text
        assert "in the pocket for the rosin" not in early
        assert client.get("/inspect/queries").text == before
        assert client.post("/inspect/ask", data=given | {"budget_tokens": "many"}).status_code == 422


def test_what_was_left_out_is_shown_by_platform_and_reason(standing: Standing) -> None:
    api, database = standing
    accept.report_left_out(database, TENANT, "matrix", {"unknown_kind": 1234, "cut": 0}, {})
    with logged_in(api) as client:
        text = Page(client.get("/inspect/jobs").text).text
    assert "matrixunknown kind1,234\n" in text
    assert "matrixcut" not in text


def test_what_waits_for_a_setting_and_what_is_sent_where_is_said_of_what_runs(standing: Standing) -> None:
    api, database = standing
    # Given a worker that was restarted with session memory off, beside this HTTP API
    stated = {"session_memory_enabled": False, "session_summary_model": "m", "openai_api_key": "**********"}
    worker = RunningProcess("worker summarize", "host", 1, stated)
    with database.tenant(TENANT) as connection:
        stats.state_process(connection, worker)
        connection.execute(text("UPDATE jobs SET dead_at = NULL, due_at = now() WHERE kind = 'summarize'"))
    with logged_in(api) as client:
        jobs, cost = (
            " ".join(Page(client.get(f"/inspect/{name}").text).text.split()) for name in ("jobs", "cost")
        )
    assert "jobs of summarize wait, as BACKSCROLL_SESSION_MEMORY_ENABLED is off; they go on" in jobs
    assert "BACKSCROLL_SESSION_MEMORY_ENABLED is false in worker summarize and true in api" in cost
    # the HTTP API has what it began with
    assert "Sessions are sent to api.openai.com:443, where m summarizes them" in cost
    with database.tenant(TENANT) as connection:
        stats.state_process(connection, worker, ends=True)


def test_a_dead_letter_is_replayed_and_dropped_once(standing: Standing) -> None:
    # Given a session whose summary was given up
    rows(
        standing[1],
        "UPDATE jobs SET dead_at = now(), due_at = NULL, last_error = '429 from the provider'"
        " WHERE kind = 'summarize' AND key = (SELECT 'session:' || max(id) FROM conversation_sessions)",
    )
    with logged_in(standing[0]) as client:
        page = client.get("/inspect/jobs?state=dead&kind=summarize")
        assert "429 from the provider" in page.text
        key = next(href for href, _ in Page(page.text).links if "/sessions/" in href).rpartition("/")[2]
        job = {"kind": "summarize", "key": f"session:{key}"}
        assert "1 jobs are due now" in client.post("/inspect/jobs/replay", data=job).text
        assert "429" not in client.get("/inspect/jobs?state=dead&kind=summarize").text
        assert "1 jobs are dropped" in client.post("/inspect/jobs/drop", data=job).text
        assert client.post("/inspect/jobs/drop", data=job).status_code == 404
        assert client.post("/inspect/jobs/drop", data={"kind": "summarize"}).status_code == 422
