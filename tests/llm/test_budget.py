"""What language models may cost a tenant a day is not exceeded, whoever asks and however many at once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.clients.protocols import Completion
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.llm.ledger import Budget, load_prices
from pipeline.store.connections.database import Database
from schemas.errors import BudgetSpent, ProviderRejected, SettingsError
from schemas.settings import Settings
from tests.conftest import TENANT
from tests.harness.pipeline import rows
from tests.llm.chat_models import ScriptedModel, asking
from tests.llm.conftest import CHAT


def ask(gateway: Gateway, prompt: str = "", tenant: str = TENANT) -> Completion:
    call = ModelCall(tenant_id=tenant, chat_id=CHAT, purpose="summary")
    return gateway.complete(call, asking(prompt), timeout_seconds=5)


def test_a_spent_budget_waits_for_the_next_day(database: Database) -> None:
    model = ScriptedModel()
    gateway = Gateway(database, model, budget=Budget(cost=0.001))
    ask(gateway, "first")
    with pytest.raises(BudgetSpent, match=r"LLM_DAILY_BUDGET=0\.001 are spent today") as spent:
        for n in range(5):
            ask(gateway, f"{n}")
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    assert spent.value.retry_after == pytest.approx((midnight - now).total_seconds(), abs=5)
    calls = model.calls
    # another tenant has a budget of its own, and the next day has one
    ask(gateway, "mine", tenant="other")
    rows(database, "UPDATE llm_calls SET called_at = called_at - interval '1 day'")
    ask(gateway, "again")
    assert model.calls == calls + 2
    # what is more than a whole day's is refused for good
    small = Gateway(database, model, budget=Budget(tokens=50))
    with pytest.raises(ProviderRejected, match="LLM_DAILY_TOKENS=50 permits a day"):
        ask(small)


def test_many_at_once_do_not_spend_more_than_there_is(settings: Settings) -> None:
    database = Database.from_settings(settings, pool_size=20)
    model = ScriptedModel(seconds=0.05)
    gateway = Gateway(database, model, budget=Budget(tokens=5000))

    def one(n: int) -> bool:
        try:
            ask(gateway, f"{n}")
        except BudgetSpent:
            return False
        return True

    # each takes 1,100 tokens where some hundred were reserved: no more than the threads in flight go over
    with ThreadPoolExecutor(4) as pool:
        done = sum(pool.map(one, range(40)))
    (total,) = rows(database, "SELECT sum(input_tokens + output_tokens) FROM llm_calls")[0]
    assert done == model.calls
    assert 5000 - 1100 <= int(str(total)) <= 5000 + 4 * 1100
    database.close()


def test_prices_come_from_the_table_and_from_the_file_that_overrides_it(tmp_path: Path) -> None:
    assert load_prices().cost("gpt-4.1-mini", 1_000_000, 1_000_000) == pytest.approx(2.0)
    # a version of a model costs what the model does
    assert load_prices().cost("gpt-4.1-mini-2025-04-14", 1_000_000, 0) == pytest.approx(0.4)
    assert load_prices().cost("smollm2", 1_000_000, 0) is None
    path = tmp_path / "prices.toml"
    path.write_text('["gpt-4.1-mini"]\ninput = 1\noutput = 2\n["smollm2"]\ninput = 0\noutput = 0\n')
    assert load_prices(path).cost("gpt-4.1-mini", 1_000_000, 1_000_000) == pytest.approx(3.0)
    assert load_prices(path).cost("smollm2", 1_000_000, 0) == 0
    assert load_prices(path).knows("gpt-4.1")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("no toml", "is no TOML"),
        ('["gpt"]\ninput = -1', "gpt.input"),
        ('["gpt"]\ninput = 1\nprice = 1', "gpt.price"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_file_of_prices_is_named(tmp_path: Path, written: str | None, told: str) -> None:
    path = tmp_path / "prices.toml"
    if written is not None:
        path.write_text(written)
    with pytest.raises(SettingsError, match=f"BACKSCROLL_LLM_PRICES={path}.*{told}"):
        load_prices(path)


def test_a_budget_in_money_needs_a_price(database: Database, settings: Settings, tmp_path: Path) -> None:
    given = settings.model_copy(update={"llm_daily_budget": 1.0})
    Gateway.of(given, database, ScriptedModel())
    local = ScriptedModel(model="smollm2")
    with pytest.raises(SettingsError, match="the price of smollm2 is not known"):
        Gateway.of(given, database, local)
    path = tmp_path / "prices.toml"
    path.write_text('["smollm2"]\ninput = 0.01\n')
    gateway = Gateway.of(given.model_copy(update={"llm_prices": path}), database, local)
    ask(gateway)
    assert rows(database, "SELECT cost FROM llm_calls") == [(pytest.approx(0.00001),)]
