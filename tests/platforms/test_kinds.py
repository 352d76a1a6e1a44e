"""What each platform writes beside plain texts is kept as text, or counted by what it is: `fixtures/kinds.jsonl`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.platforms import (
    test_discord,
    test_messenger,
    test_signal,
    test_slack,
    test_telegram,
    test_whatsapp,
)
from tests.platforms.reading import FIXTURES, Read

# Each with what is read of it, and by which reasons the rest is counted or named.
EXAMPLES = [json.loads(line) for line in (FIXTURES / "kinds.jsonl").read_text("utf-8").splitlines()]


def read(platform: str, message: Any, folder: Path) -> Read:
    """An export of one message."""
    match platform:
        case "telegram":
            return test_telegram.read(test_telegram.chat(message))
        case "discord":
            return test_discord.read(test_discord.channel(message))
        case "slack":
            return test_slack.one_day(message)
        case "messenger":
            return test_messenger.read(folder, test_messenger.thread(message))
        case "signal":
            return test_signal.own_export(folder, test_signal.item("1", "3", **message))
    return test_whatsapp.read(message)


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=[f"{number} {each['platform']}" for number, each in enumerate(EXAMPLES)]
)
def test_what_becomes_of_a_message_depends_on_its_kind(tmp_path: Path, example: dict[str, Any]) -> None:
    found = read(example["platform"], example["message"], tmp_path)
    assert found.contents == example["contents"]
    assert [skipped.reason for skipped in found.skipped] == example.get("skipped", [])
    unread = [[each.platform, each.kind, each.known] for each in found.unread]
    assert (unread, found.broken) == (example.get("unread", []), [])
