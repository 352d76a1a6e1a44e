"""Sources on the command line: added with what to paste, listed without their secrets, and removed."""

import httpx
import pytest

from schemas.settings import Settings
from tests.api.conftest import served
from tests.commands.conftest import Run


def test_sources_are_those_of_the_running_backscroll(
    run: Run, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = run("sources")
    assert (refused.code, "No running Backscroll" in refused.err) == (4, True)
    with served(settings) as client:
        monkeypatch.setenv("BACKSCROLL_URL", str(client.base_url))
        monkeypatch.setenv("BACKSCROLL_API_KEY", "test-key")
        assert "no source yet" in run("sources").out
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
        gone = run("sources", "remove", source, "--yes")
        assert (gone.code, "backscroll sources list" in gone.err) == (3, True)
