"""Drive Hermes Agent's own loader, hooks, session store and memory manager: hermes_story.py CHAT <LINES.

[name, user, text] is said in the group: observed, or with "@" before the text addressed to the agent, which answers.
Each answered line prints what memory knew, and the seconds that the agent waited for it.
"""

import json
import sys
import time
import uuid
from datetime import datetime
from typing import Any


def main(chat: str) -> None:
    from agent.memory_manager import MemoryManager
    from backscroll_client.hermes import memory
    from gateway.config import GatewayConfig, Platform
    from gateway.platforms.base import MessageEvent
    from gateway.session import SessionSource, SessionStore
    from hermes_cli.plugins import discover_plugins, invoke_hook
    from hermes_constants import get_hermes_home
    from plugins.memory import load_memory_provider

    discover_plugins()
    store = SessionStore(get_hermes_home() / "sessions", GatewayConfig())
    kind = "group" if chat.startswith("-") else "dm"
    manager = MemoryManager()
    manager.add_provider(load_memory_provider("backscroll"))
    first: dict[str, Any] = {"user_id": chat} if kind == "dm" else {}
    manager.initialize_all(
        session_id="s", platform="telegram", chat_id=chat, chat_type=kind, chat_name="Harbour House", **first
    )
    for line in sys.stdin:
        name, user, text = json.loads(line)
        source = SessionSource(
            Platform.TELEGRAM, chat, "Harbour House", kind, None if kind == "group" else user, name
        )
        said = f"[{name}|{user}]\n{text.removeprefix('@')}" if kind == "group" else text.removeprefix("@")
        if not text.startswith("@"):
            entry = store.get_or_create_session(source)
            told = {"role": "user", "content": said, "observed": True, "message_id": uuid.uuid4().hex}
            store.append_to_transcript(entry.session_id, told)
            continue
        event = MessageEvent(
            said, source=source, message_id=uuid.uuid4().hex, timestamp=datetime.now().astimezone()
        )
        invoke_hook("pre_gateway_dispatch", event=event, gateway=None, session_store=store)
        # an agent takes seconds to begin, in which memory answers
        for asked in [*memory()._begun.values()]:
            asked.exception(timeout=120)
        began = time.monotonic()
        known = manager.prefetch_all(said)
        seconds = time.monotonic() - began
        manager.sync_all(said, f"Notiert, {name}.")
        manager.flush_pending(timeout=10)
        print(json.dumps([known, seconds]), flush=True)
    end = time.monotonic() + 20
    while memory()._buffered.waiting and time.monotonic() < end:
        time.sleep(0.1)


main(sys.argv[1])
