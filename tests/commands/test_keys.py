"""API keys on the command line: made, shown once, listed, rotated and revoked."""

import re

import httpx
import pytest

from schemas.settings import Settings
from tests.api.conftest import served
from tests.commands.conftest import Run

SECRET = re.compile(r"^bks_[\w-]{43}$", re.MULTILINE)


def test_a_key_is_shown_once_listed_without_its_secret_and_revoked(run: Run) -> None:
    made = run(
        "keys", "create", "Бот 🏠", "--scope", "read", "--chat", "telegram:-1", "--messages-per-day", 5000
    )
    assert made.code == 0, made.err
    (secret,) = SECRET.findall(made.out)
    assert "5,000 messages/day" in made.out
    listed = run("keys", "list")
    assert "Бот 🏠" in listed.out
    assert secret not in listed.out
    rotated = run("keys", "rotate", 1, "--keep-hours", 1, "--json").json
    assert rotated["key"] != secret
    assert rotated["former_until"]
    assert "is revoked" in run("keys", "revoke", 1, "--yes").out
    assert run("keys", "list", "--json").json["keys"][0]["revoked_at"]
    again = run("keys", "rotate", 1)
    assert (again.code, "create another one" in again.err) == (2, True)


def test_keys_are_made_over_http_where_only_the_api_is_reached(
    run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(settings) as client:
        # Given a machine that knows the address of the API and a key, and no database
        monkeypatch.setenv("BACKSCROLL_URL", str(client.base_url))
        for name in ("DATABASE_URL", "MAINTENANCE_DATABASE_URL", "OWNER_DATABASE_URL", "REDIS_URL"):
            monkeypatch.delenv(f"BACKSCROLL_{name}", raising=False)
        # Then all of it works
        operator = run("keys", "create", "operator", "--scope", "operate", "--json").json
        assert [key["label"] for key in run("keys", "list", "--json").json["keys"]] == ["operator"]
        assert run("keys", "rotate", operator["id"], "--json").json["id"] == operator["id"]
        assert "is revoked" in run("keys", "revoke", operator["id"], "--yes").out
        # and a key without the scope is told which it lacks
        bot = run("keys", "create", "bot", "--json").json
        monkeypatch.setenv("BACKSCROLL_API_KEY", bot["key"])
        assert "scope `operate`" in run("keys").err


def test_sources_are_those_of_the_running_backscroll(
    run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run("sources")
    assert (refused.code, "start it with `backscroll up`" in refused.err) == (4, True)
    with served(settings) as client:
        monkeypatch.setenv("BACKSCROLL_URL", str(client.base_url))
        monkeypatch.setenv("BACKSCROLL_API_KEY", "test-key")
        # Given a source of a platform that takes our secret
        added = run("sources", "add", "telegram", "--label", "Дом 🏠", "--url", "https://memory.example.org/")
        assert "setWebhook" in added.out
        source = added.out.split()[1].rstrip(".")
        assert f"https://memory.example.org/v1/events/telegram/{source} " in added.out
        secret = added.out.partition("secret_token=")[2].split()[0]
        # Then what was shown is what proves
        url = client.base_url.join(f"/v1/events/telegram/{source}")
        proof = {"X-Telegram-Bot-Api-Secret-Token": secret}
        assert httpx.post(url, json={"update_id": 1, "poll": {"id": "1"}}, headers=proof).status_code == 200
        # and one that has its own needs it
        assert "slack has one of its own" in run("sources", "add", "slack").err
        listed = run("sources", "list")
        assert "Дом 🏠" in listed.out
        assert secret not in listed.out
        assert "is removed" in run("sources", "remove", source, "--yes").out
        assert run("sources", "remove", source, "--yes").code == 3
