"""The inspector of a real HTTP API, with a sample chat and a hostile one."""

from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

import httpx
import pytest

from ops.local.embedded.postgres import EmbeddedPostgres
from ops.local.embedded.redis import EmbeddedRedis
from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.messages import ChatIn
from tests.api.conftest import served
from tests.commands.conftest import (  # noqa: F401
    CHAT,
    Workers,
    house,
    house_template,
    run,
    running,
    settings,
    template,
    workers,
)
from tests.conftest import TENANT, copied, message, settings_of

EVIL = "evil:/é?#1"
SCRIPT = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> </pre></style>"
)
HOSTILE = [
    SCRIPT,
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "\u202eevil reversed \u2067isolated",
    "שלום עולם (123) مرحبا بالعالم",
    "x" * 8000,
    "👩‍👩‍👧‍👦 🏳️‍🌈 " * 40,
    "z̴̡̛͓͎̠̾̈́a̷l̵g̶o̷ {{ 7 * 7 }}",
]


@contextmanager
def logged_in(api: httpx.Client, key: str = "test-key") -> Iterator[httpx.Client]:
    """A client that has logged in, and sends forms as a page of the inspector does."""
    origin = str(api.base_url).rstrip("/")
    with httpx.Client(base_url=origin, headers={"Origin": origin}, timeout=180) as client:
        answered = client.post("/inspect/login", data={"key": key})
        assert answered.status_code == 303, answered.text
        yield client


@pytest.fixture(scope="module")
def standing(
    postgres: EmbeddedPostgres,
    redis: EmbeddedRedis,
    house_template: str,  # noqa: F811
) -> Iterator[tuple[httpx.Client, Database]]:
    """An HTTP API with a sample chat and a hostile one, all of both in memory, for a whole module."""
    with copied(postgres, "inspected", house_template) as name:
        # the summary of the hostile chat waits
        settings = settings_of(postgres, name, redis_url=redis.url, summarize_debounce_seconds=3600)
        database = Database.from_settings(settings)
        hostile = [
            message(minute, text, id=str(minute), sender_name=f"{SCRIPT[:40]}{minute}")
            for minute, text in enumerate(HOSTILE)
        ]
        accept.accept(database, TENANT, ChatIn(chat_id=EVIL, title=f"{SCRIPT}\u202egnp.exe"), hostile)
        Workers(database, settings).finish()
        with served(settings) as api:
            yield api, database
        database.close()


class Page(HTMLParser):
    """The links, texts and dangers of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.text = ""
        self.dangers: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names.add(tag)
        if tag == "a":
            self.links.append((given["href"] or "", ""))
        inner = tag == "script" and not (given.get("src") or "").startswith("/inspect/assets/")
        if (
            inner
            or tag in {"img", "iframe", "object", "style"}
            or any(name.startswith("on") for name in given)
        ):
            self.dangers.append(tag)
        if "style" in given:
            self.dangers.append(f"style of {tag}")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.links and self.lasttag in {"a", "bdi"}:
            href, text = self.links[-1]
            self.links[-1] = (href, text + data)
