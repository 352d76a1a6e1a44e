"""Every call is noted with what it cost, and what was paid for is paid once."""

import pytest
from sqlalchemy import text

from pipeline.clients.protocols import Completion
from pipeline.erasure import edits, forget
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.store import llm_calls
from pipeline.store.connections.database import Database
from schemas.errors import LeaseLost, ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.people import Subject
from tests.conftest import SESSION_POLICY, TENANT
from tests.harness.pipeline import forget_all, rows
from tests.llm.chat_models import ANSWER, ScriptedModel, asking
from tests.llm.conftest import CHAT, Claiming

LEDGER = (
    "SELECT purpose, model, provider, outcome, input_tokens, output_tokens, cost FROM llm_calls ORDER BY id"
)
PLAIN = ModelCall(tenant_id=TENANT, chat_id=CHAT, purpose="hyde")


def answers(database: Database) -> int:
    (found,) = rows(database, "SELECT count(*) FROM llm_answers")
    return int(str(found[0]))


def test_a_call_is_noted_with_its_tokens_its_price_and_its_time(database: Database) -> None:
    gateway = Gateway(database, ScriptedModel(seconds=0.05))
    assert gateway.complete(PLAIN, asking(), timeout_seconds=5) == ANSWER
    assert rows(database, LEDGER) == [
        ("hyde", "gpt-4.1-mini", "models.example:443", "answered", 1000, 100, pytest.approx(0.00056))
    ]
    assert rows(database, "SELECT chat_id, latency_ms BETWEEN 50 AND 2000 FROM llm_calls") == [(CHAT, True)]
    counted = dict(rows(database, "SELECT name, sum(value) FROM daily_counters GROUP BY 1"))
    assert counted["model_calls"] == 1
    assert counted["model_cost_usd"] == pytest.approx(0.00056)
    # without a known price it costs an unknown amount, and not nothing
    Gateway(database, ScriptedModel(model="smollm2")).complete(PLAIN, asking(), timeout_seconds=5)
    assert rows(database, "SELECT cost FROM llm_calls WHERE model = 'smollm2'") == [(None,)]


def test_a_failed_call_is_noted_and_raised(database: Database) -> None:
    errors = {
        "unavailable": ProviderUnavailable("503"),
        "rejected": ProviderRejected("400"),
        "failed": RuntimeError("a defect"),
    }
    for error in errors.values():
        with pytest.raises(type(error), match=str(error)):
            Gateway(database, ScriptedModel(error)).complete(PLAIN, asking(), timeout_seconds=5)
    assert [row[3:] for row in rows(database, LEDGER)] == [(outcome, 0, 0, 0.0) for outcome in errors]


def test_no_transaction_is_open_while_the_model_thinks(database: Database, call: ModelCall) -> None:
    seen = []

    def reply(_: object) -> Completion:
        with database.tenant(TENANT) as connection:
            seen.append(connection.scalar(text("SELECT outcome FROM llm_calls FOR UPDATE NOWAIT")))
            connection.execute(text("SELECT 1 FROM llm_providers FOR UPDATE NOWAIT"))
            connection.execute(text("SELECT 1 FROM jobs FOR UPDATE NOWAIT"))
        return ANSWER

    Gateway(database, ScriptedModel(reply)).complete(call, asking(), timeout_seconds=5)
    assert seen == ["pending"]


def test_what_a_killed_worker_had_paid_for_is_not_paid_again(database: Database, claiming: Claiming) -> None:
    # Given a worker that dies between the answer and saving it, when another one does the same
    model = ScriptedModel()
    gateway = Gateway(database, model)
    for _ in range(2):
        claim = claiming()
        call = ModelCall(tenant_id=TENANT, chat_id=CHAT, purpose="summary", claim=claim)
        assert gateway.complete(call, asking(), timeout_seconds=5) == ANSWER
    # Then it has the answer without a call, and the ledger says so
    assert model.calls == 1
    assert [row[3:] for row in rows(database, LEDGER)] == [
        ("answered", 1000, 100, pytest.approx(0.00056)),
        ("reused", 0, 0, 0.0),
    ]
    # and when its result is saved the answer is kept no longer
    with database.tenant(TENANT) as connection:
        llm_calls.drop_answers_of_job(connection, CHAT, claim)
    assert answers(database) == 0


def test_nothing_is_paid_for_a_job_that_somebody_else_does(database: Database, claiming: Claiming) -> None:
    late = ModelCall(tenant_id=TENANT, chat_id=CHAT, purpose="summary", claim=claiming())
    claiming()
    model = ScriptedModel()
    with pytest.raises(LeaseLost):
        Gateway(database, model).complete(late, asking(), timeout_seconds=5)
    assert model.calls == 0
    assert rows(database, LEDGER) == []


def test_an_edit_takes_the_kept_answers_of_its_chat_with_it(database: Database, call: ModelCall) -> None:
    # each prompt has an answer of its own
    model = ScriptedModel()
    for prompt in (asking(), asking("something else"), asking()):
        Gateway(database, model).complete(call, prompt, timeout_seconds=5)
    assert (model.calls, answers(database)) == (2, 2)
    edits.edit(database, TENANT, edits.NewText(CHAT, "m1", "it is repaired", None), SESSION_POLICY)
    assert answers(database) == 0


def test_what_is_deleted_meanwhile_is_in_no_answer(database: Database, call: ModelCall) -> None:
    def reply(_: object) -> Completion:
        edits.delete(database, TENANT, CHAT, "m1", SESSION_POLICY)
        return ANSWER

    Gateway(database, ScriptedModel(reply)).complete(call, asking(), timeout_seconds=5)
    assert answers(database) == 0
    assert [row[3] for row in rows(database, LEDGER)] == ["answered"]
    # and the parts of a long session that are still to come are not paid for
    with pytest.raises(LeaseLost):
        Gateway(database, ScriptedModel()).complete(call, asking("the next part"), timeout_seconds=5)


@pytest.mark.parametrize("kind", ["user", "chat", "tenant"])
def test_forgetting_leaves_no_answer(database: Database, call: ModelCall, kind: str) -> None:
    Gateway(database, ScriptedModel()).complete(call, asking(), timeout_seconds=5)
    subject = {
        "user": Subject(kind="user", sender_id="test:ann"),
        "chat": Subject(kind="chat", chat_id=CHAT),
        "tenant": Subject(kind="tenant"),
    }[kind]
    receipt = forget.start(database, TENANT, subject)
    forget_all(database)
    assert forget.get(database, TENANT, receipt.id).counts["found_again_texts"] == 0
    assert answers(database) == 0
    # what it has cost stays, but of a tenant's nothing does
    left = rows(database, "SELECT chat_id, prompt_hash IS NULL, input_tokens FROM llm_calls")
    assert left == {"user": [(CHAT, False, 1000)], "chat": [(None, True, 1000)], "tenant": []}[kind]


def test_an_answer_waits_for_postgres(
    database: Database, call: ModelCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    from schemas.errors import DatabaseUnavailable

    begin, away = database.tenant, iter([True, True])

    def reply(_: object) -> Completion:
        def tenant(tenant_id: str) -> object:
            if next(away, False):
                raise DatabaseUnavailable("Postgres cannot be reached")
            return begin(tenant_id)

        monkeypatch.setattr(database, "tenant", tenant)
        return ANSWER

    assert Gateway(database, ScriptedModel(reply)).complete(call, asking(), timeout_seconds=5) == ANSWER
    assert answers(database) == 1


def test_a_prompt_that_alone_is_never_answered_becomes_a_failure_of_its_own(database: Database) -> None:
    def reply(prompt: object) -> Completion:
        if prompt == asking("poison"):
            raise ProviderUnavailable("500")
        return ANSWER

    gateway = Gateway(database, ScriptedModel(reply))
    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            gateway.complete(PLAIN, asking("poison"), timeout_seconds=5)
        gateway.complete(PLAIN, asking(), timeout_seconds=5)
    with pytest.raises(ProviderFailed, match="this prompt is not answered: 500"):
        gateway.complete(PLAIN, asking("poison"), timeout_seconds=5)


def test_an_outage_is_no_prompts_fault(database: Database) -> None:
    gateway = Gateway(database, ScriptedModel(ANSWER, ProviderUnavailable("503")))
    gateway.complete(PLAIN, asking("before"), timeout_seconds=5)
    for _ in range(4):
        with pytest.raises(ProviderUnavailable):
            gateway.complete(PLAIN, asking(), timeout_seconds=5)
