"""The page of `backscroll context --html`, which explains a context: whole, and harmless whatever was said."""

from collections.abc import Mapping
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.context import Block, ChatMessage, Context, ContextItem, Dropped, Explanation, Hit
from schemas.listing import ChatSummary, SessionSpan
from tests.commands.conftest import Run
from tests.conftest import EPOCH
from workers.api.inspector.context_view import standalone

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onmouseover='x' </pre></style>&lt;"
VOID = {"br", "meta"}


class Reader(HTMLParser):
    """Reads a page, and fails where an element is not closed or not where it belongs."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.elements}


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def assert_harmless(reader: Reader) -> None:
    """Nothing runs and nothing is loaded."""
    assert not reader.names & {"script", "img", "link", "iframe", "object", "a", "form", "base"}
    for name, attributes in reader.elements:
        assert not [key for key in attributes if key.startswith("on") or key in {"src", "href"}], name


def page_of(text: str, components: Mapping[str, float] | None = None) -> str:
    item = ContextItem(kind="message", id="1", text=text, at=EPOCH, speaker=text, score=1, reason=text)
    hit = Hit(
        kind="message",
        id="1",
        at=EPOCH,
        speaker=text,
        preview=text,
        rank=1,
        score=1,
        components=components or {text: 1, "b": -1},
    )
    why = Explanation(
        profile=text,
        asked_by=text,
        parameters={text: text},
        vector_search="off",
        keyword_search="off",
        rows_compared=1,
        messages=[hit, hit.model_copy(update={"shown_in": "exchanges"})],
        dropped=[Dropped(kind="message", id="1", reason="cap", detail=text)],
        times=["before the trip: 3 May 2026, said by Ana", text],
        timings_ms={text: 1},
    )
    context = Context(
        context_id="c",
        text=text,
        messages=[ChatMessage(role="user", content=text)],
        blocks=[Block(kind="exchanges", tokens=1, chars=1, text=text, items=[item])],
        used_tokens=1,
        budget=2,
        degraded=[text],
        explain=why,
    )
    spans = [SessionSpan(id=1, started_at=EPOCH, ended_at=EPOCH + timedelta(hours=1), message_count=3)]
    chat = ChatSummary(
        chat_id=text, title=text, kind="group", time_zone="UTC", language="english", memory=True
    )
    return standalone(context, text, chat, spans)


@pytest.fixture(scope="module")
def plain() -> set[str]:
    return read(page_of("plain")).names


@given(text=st.text() | st.just(HOSTILE))
@settings(max_examples=20)
def test_whatever_was_said_stays_text(plain: set[str], text: str) -> None:
    reader = read(page_of(text))
    assert_harmless(reader)
    assert reader.names <= plain


@pytest.mark.usefixtures("house", "running")
def test_the_page_tells_all_that_an_explanation_does(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "why.html"
    shown = run("context", "which boiler did we decide on?", "--html", file, "--budget", 600)
    assert file.stat().st_mode & 0o777 == 0o600
    assert shown.code == 0
    assert "why" not in shown.out.splitlines()[0]
    reader = read(file.read_text(encoding="utf-8"))
    assert_harmless(reader)
    for expected in (
        "Tokens and time",
        "As the model sees it",
        "retrieve",
        "Sessions over time",
        "Messages found",
        "meaning",
        "keywords #",
        "words 0.",
        "no tokens were left",
        "vectors #",
        "shown in exchanges",
        "Not shown",
        "budget",
        "What this context was made with",
        "which boiler did we decide on?",
    ):
        assert expected in reader.text, expected
    kinds = [attributes.get("class") for name, attributes in reader.elements if name == "rect"]
    assert {"picked", "found", None} <= set(kinds)
    policy = [a["content"] for name, a in reader.elements if name == "meta" and "http-equiv" in a]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
