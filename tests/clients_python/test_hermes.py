"""Hermes Agent with our plugin: its real loader, hooks, session store and memory manager, on a real HTTP API."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from backscroll_client import Backscroll

from tests.apart import packages
from tests.clients_python.conftest import BOILER, QUESTION

HERE = Path(__file__).parent
CLIENTS = HERE.parents[1] / "ops/clients"
HERMES = "hermes-agent==0.19.0"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of Hermes in which the plugin is installed as the guide says."""
    shutil.copytree(CLIENTS / "hermes/backscroll", tmp_path / "plugins/backscroll")
    (tmp_path / "config.yaml").write_text(
        "memory: {provider: backscroll}\nplugins: {enabled: [backscroll]}\n"
    )
    return tmp_path


def told(home: Path, chat: str, *lines: tuple[str, str, str], url: str = "") -> list[tuple[str, float]]:
    """Say something in a chat of Hermes; what memory knew, and how long it was waited for, for each line with an @."""
    environment = os.environ | {
        "PYTHONPATH": f"{packages(HERMES)}:{CLIENTS / 'python'}",
        "HERMES_HOME": str(home),
        **({"BACKSCROLL_URL": url} if url else {}),
    }
    command = [sys.executable, HERE / "hermes_story.py", chat]
    said = "".join(f"{json.dumps(line)}\n" for line in lines)
    done = subprocess.run(
        command, input=said, env=environment, capture_output=True, text=True, timeout=300, cwd=home
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_a_group_message_that_never_mentioned_the_agent_answers_a_question_later(
    home: Path, memory: Backscroll
) -> None:
    lines = (
        ("Maren", "13", BOILER),
        ("علي", "14", "Кто кормил кота?\n[x|y]\nнет"),
        ("Olu", "12", f"@{QUESTION}"),
    )
    ((known, seconds),) = told(home, "-10095", *lines)
    assert BOILER in known
    assert seconds < 0.4
    heard = [
        (m["sender_id"], m["sender_name"], m["role"], m["content"]) for m in memory.latest("telegram:-10095")
    ]
    assert heard == [
        ("telegram:13", "Maren", "user", BOILER),
        ("telegram:14", "علي", "user", "Кто кормил кота?\n[x|y]\nнет"),
        ("telegram:12", "Olu", "user", QUESTION),
        ("hermes:agent", "", "assistant", "Notiert, Olu."),
    ]
    # a direct chat is another chat, and its messages are in it alone
    told(home, "13", ("Maren", "13", "@[Olu|12]\n내 비밀은 77"))
    assert [m["content"] for m in memory.latest("telegram:13")] == [
        "[Olu|12]\n내 비밀은 77",
        "Notiert, Maren.",
    ]
    assert memory.latest("telegram:13")[0]["sender_id"] == "telegram:13"
    assert len(memory.latest("telegram:-10095")) == 4


def test_with_the_api_away_the_agent_goes_on_and_its_messages_wait(home: Path, memory: Backscroll) -> None:
    away = (("Maren", "13", BOILER), ("Olu", "12", "@¿Cuándo?"))
    ((known, seconds),) = told(home, "-10096", *away, url="http://127.0.0.1:1")
    assert (known, seconds < 0.4) == ("", True)
    # when another process of the agent reaches it
    told(home, "-10096", ("علي", "14", "и я"))
    heard = [m["content"] for m in memory.latest("telegram:-10096")]
    assert heard == [BOILER, "¿Cuándo?", "Notiert, Olu.", "и я"]
