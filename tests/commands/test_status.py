"""An operator sees what is owed, how late it is, and what was given up; also while Redis is away."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.clients.protocols import Completion
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.operations import status
from pipeline.store.connections.database import Database
from schemas.errors import ProviderUnavailable
from tests.commands.conftest import CHAT, SAMPLE, Run, Workers
from tests.conftest import TENANT
from tests.harness.pipeline import rows
from tests.llm.chat_models import ScriptedModel, asking


def test_everything_imported_is_owed_and_then_done(run: Run, workers: Workers, database: Database) -> None:
    run("import", SAMPLE)
    before = run("status", "--json").json
    assert before["counts"]["messages"] == before["counts"]["waiting"] == 418
    assert {job["kind"]: job["pending"] for job in before["jobs"]} == {"ingest": 1}
    # a chat is told of alone, and a page looks at its latest messages alone
    latest = status.progress(database, TENANT, [CHAT], 100)
    assert (latest.messages, latest.waiting, latest.complete, latest.to_embed <= 100) == (
        418,
        418,
        False,
        True,
    )
    assert status.progress(database, TENANT, ["telegram:another"]).complete
    workers.finish()
    after = run("status", "--json").json
    assert after["jobs"] == []
    assert after["counts"]["waiting"] == 0
    assert after["counts"]["vectors"][0]["messages"] == 418
    assert after["today"]["messages_accepted"] == after["week"]["messages_accepted"] == 418
    assert after["today"]["sessions_closed"] == sum(after["counts"]["sessions"].values())


def ask(database: Database, *models: ScriptedModel, purpose: str = "summary", tenant: str = TENANT) -> None:
    for number, model in enumerate(models):
        call = ModelCall(tenant_id=tenant, chat_id="test:1", purpose=purpose)
        try:
            Gateway(database, model).complete(call, asking(f"{number}"), timeout_seconds=5)
        except ProviderUnavailable:
            continue


@pytest.fixture
def called(database: Database) -> Database:
    """Calls of two models for two purposes, one of them yesterday, and of another tenant."""
    ask(database, ScriptedModel(), ScriptedModel())
    rows(database, "UPDATE llm_calls SET called_at = called_at - interval '1 day' WHERE id = 1")
    down = ScriptedModel(ProviderUnavailable("503", retry_after=90), provider="down.example:443")
    ask(database, ScriptedModel(model="smollm2", provider="127.0.0.1:8080"), down, purpose="hyde")
    ask(database, ScriptedModel(), tenant="other")
    return database


def test_costs_are_added_up_by_day_model_purpose_and_tenant(run: Run, called: Database) -> None:
    by_day = run("cost", "--json").json
    today = datetime.now(UTC).date()
    days = [(str(today), 3), (str(today - timedelta(days=1)), 1)]
    assert [(row["name"], row["calls"]) for row in by_day["rows"]] == days
    assert by_day["total"]["cost"] == pytest.approx(2 * 0.00056)
    assert (by_day["total"]["calls"], by_day["total"]["failed"], by_day["total"]["unpriced"]) == (4, 1, 1)
    assert run("cost", "--json", "--days", 1).json["total"]["calls"] == 3
    by_model = run("cost", "--by", "model", "--json").json["rows"]
    assert [(row["name"], row["calls"]) for row in by_model] == [("gpt-4.1-mini", 3), ("smollm2", 1)]
    by_purpose = run("cost", "--by", "purpose", "--json").json["rows"]
    assert [(row["name"], row["failed"]) for row in by_purpose] == [("summary", 0), ("hyde", 1)]
    by_tenant = run("cost", "--by", "tenant", "--json").json
    assert {row["name"]: row["calls"] for row in by_tenant["rows"]} == {TENANT: 4, "other": 1}


def test_the_status_says_what_was_called_today_and_who_does_not_answer(run: Run, called: Database) -> None:
    shown = " ".join(run("status").out.split())
    assert "3 calls, 1 of them failed, 0 answers reused, 2,200 tokens, $0.0006" in shown
    assert "down.example:443 does not answer and is not asked until" in shown
    assert run("status", "--json").json["today"]["model_cost_usd"] == pytest.approx(2 * 0.00056)


@pytest.mark.usefixtures("house")
def test_before_a_backfill_is_paid_for_its_price_and_its_time_are_told(
    run: Run, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = ("backfills", "start", "summarize", "--all", "--dry-run")
    without = run(*start, "--json").json
    assert without["estimate"]["rows"] == without["would_raise"] > 10
    assert (without["estimate"]["model"], without["estimate"]["cost"]) == ("extractive-v1", 0)
    monkeypatch.setenv("BACKSCROLL_SESSION_SUMMARY_MODEL", "gpt-4.1-mini")
    before = run(*start, "--json").json["estimate"]
    expected = (before["tokens"] + 500 * before["rows"]) * 0.4 + 300 * before["rows"] * 1.6
    assert (before["seconds"], before["cost"]) == (None, pytest.approx(expected / 1_000_000))
    # the model's latest answers say more, sixteen of them at once
    ask(database, ScriptedModel(Completion(text="short", input_tokens=900, output_tokens=50), seconds=0.2))
    after = run(*start, "--json").json["estimate"]
    assert after["cost"] < before["cost"]
    assert after["seconds"] == pytest.approx(0.2 * after["rows"] / 16, rel=0.5)
    monkeypatch.setenv("BACKSCROLL_LLM_REQUESTS_PER_MINUTE", "1")
    assert run(*start, "--json").json["estimate"]["seconds"] == 60 * after["rows"]
