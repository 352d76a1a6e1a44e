"""The bots to copy, each started as it is with its real library: what was said once answers a question later."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import telegram
from backscroll_client import Backscroll, Message

from ops.local.embedded.server import free_port
from tests.apart import packages
from tests.clients_python.conftest import BOILER, CHAT, QUESTION
from tests.clients_python.platforms import Discord, Slack, Telegram, answering, complete
from tests.clients_python.start_bot import EXAMPLES
from tests.waiting import until

HERE = Path(__file__).parent
PATH = f"{HERE.parents[1] / 'ops/clients/python'}:{HERE.parents[1]}"
# started processes are slow on a busy machine
PATIENCE_SECONDS = 60
# `payload_task.mjs` is none: it hands one message over
BOTS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_file() and path.stem != "payload_task")
AIOGRAM = ("aiogram==3.31.0", "aiofiles==25.1.0", "magic-filter==1.0.12")


@pytest.mark.parametrize("bot", BOTS)
def test_a_bot_has_at_most_30_lines_of_which_four_are_for_memory(bot: str) -> None:
    lines = [line for line in (EXAMPLES / bot).read_text().splitlines() if line.strip()]
    # without the client, what people may ask for themselves is written out
    assert len(lines) <= (45 if bot.endswith(".mjs") else 30)
    # its client, what hands over what it sees, and what hands over what it says where the platform does not
    uses = [line for line in lines if re.search(r"\bmemory\b|BACKSCROLL|/v1/", line) and line[0] not in '"/']
    asks = [line for line in uses if re.search(r"memory\.context\(|/v1/context", line)]
    assert len(asks) == 1
    # and what does the commands that people have
    commands = [
        line for line in uses if re.search(r'memory\.command\(|^  "/|^    .*await (?:post|call)\(', line)
    ]
    assert commands
    assert len(uses) - len(asks) - len(commands) <= 3
    if bot.endswith(".mjs"):
        subprocess.run(["/usr/bin/env", "node", "--check", EXAMPLES / bot], check=True, timeout=600)


@contextmanager
def started(bot: str, platform: str, folder: Path, url: str, **settings: str) -> Iterator[None]:
    """Run a bot until it is killed."""
    with answering(complete) as model, (folder / "log").open("ab") as log:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("BACKSCROLL_")
        }
        environment |= {
            "PYTHONPATH": PATH,
            "BACKSCROLL_URL": url,
            "BACKSCROLL_API_KEY": "test-key",
            "OPENAI_BASE_URL": f"{model}/v1",
            "OPENAI_API_KEY": "none",
            **settings,
        }
        command = [sys.executable, HERE / "start_bot.py", bot, platform]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait(60)


def said(number: int, text: str) -> dict[str, Any]:
    """A message of a group, as the library writes those of Telegram's."""
    chat = telegram.Chat(-100420, "supergroup", title="Harbour House")
    person = telegram.User(13, "Maren", is_bot=False)
    at = datetime.fromtimestamp(1777300000 + number, UTC)
    return telegram.Message(number, at, chat, from_user=person, text=text).to_dict()


def test_a_bot_of_telegram_answers_from_memory_after_it_was_killed(
    url: str, memory: Backscroll, tmp_path: Path
) -> None:
    platform, settings = Telegram(), {"BOT_TOKEN": "99:token"}
    aiogram = settings | {"PYTHONPATH": f"{packages(*AIOGRAM)}:{PATH}"}

    def heard() -> list[str]:
        return [message["content"] for message in memory.latest(CHAT)]

    with answering(platform.answer) as address:
        # Given a bot that hears of the boiler, is corrected, and is killed
        platform.say(said(1, "Der neue Kessel kommt am 3. Mai."))
        platform.say(said(1, BOILER), "edited_message")
        platform.say(said(2, "Wer hat Gerald gefüttert?"))
        with started("telegram_ptb", address, tmp_path, url, **settings):
            first = platform.sent.get(timeout=PATIENCE_SECONDS)
            until(lambda: not platform.updates and len(heard()) == 3, "it has heard all")
        # When another one of the same account, with another library, is asked
        platform.say(said(3, QUESTION))
        with started("telegram_aiogram", address, tmp_path, url, **aiogram):
            told = platform.sent.get(timeout=PATIENCE_SECONDS)
            until(lambda: len(heard()) == 5, "it has said all")
    # Then the answer is what was said, as it was corrected
    assert BOILER in told["text"]
    # and memory has all of it, each once, with what the bot said
    expected = [BOILER, "Wer hat Gerald gefüttert?", QUESTION, first["text"], told["text"]]
    assert sorted(heard()) == sorted(expected)


def test_a_bot_of_slack_answers_from_memory(url: str, memory: Backscroll, tmp_path: Path) -> None:
    # Given a bot that Slack tells what is said, and which is asked
    port, secret = free_port(), "signing"
    platform, settings = Slack(port, secret), {"BOT_TOKEN": "xoxb-1", "SLACK_SIGNING_SECRET": secret}
    with (
        answering(platform.answer) as address,
        started("slack_bolt_bot", address, tmp_path, url, PORT=str(port), **settings),
    ):
        for text in (BOILER, "Кто кормил кота", QUESTION):
            platform.say(text)
        # Then it answers what was said
        told = platform.sent.get(timeout=PATIENCE_SECONDS)
        assert BOILER in told
        # and Slack tells it of its own message
        platform.say(told, bot_id="B99", user="U99")
    heard = memory.latest("slack:C042")
    assert [message["content"] for message in heard] == [BOILER, "Кто кормил кота", QUESTION, told]
    assert [message["role"] for message in heard] == ["user", "user", "user", "assistant"]


def test_a_bot_of_discord_answers_from_memory(url: str, memory: Backscroll, tmp_path: Path) -> None:
    # Given a bot that the gateway tells what is said, changed and deleted
    platform = Discord()
    platform.say("Der neue Kessel kommt am 3. Mai.", id="1")
    platform.say(BOILER, "MESSAGE_UPDATE", id="1", edited_timestamp="2026-04-27T18:01:00+00:00")
    platform.say("oops", id="2")
    platform.say("", "MESSAGE_DELETE", id="2")

    def heard() -> list[Message]:
        return memory.latest("discord:420")

    with platform.served() as address, started("discord_bot", address, tmp_path, url, BOT_TOKEN="token"):
        # When it is asked
        platform.say(QUESTION)
        # Then it answers what was said, as it was corrected
        told = platform.sent.get(timeout=PATIENCE_SECONDS)
        assert BOILER in told
        # and the gateway tells it of its own message
        until(lambda: len(heard()) == 3, "its own words came")
    assert [message["content"] for message in heard()] == [BOILER, QUESTION, told]
    assert [message["role"] for message in heard()] == ["user", "user", "assistant"]
