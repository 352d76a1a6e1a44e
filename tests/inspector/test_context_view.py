"""The page of `backscroll context --html`, which explains a context: whole, and harmless whatever was said."""

import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.context import Block, ChatMessage, Context, ContextItem, Dropped, Explanation, Hit
from schemas.listing import ChatSummary, SessionSpan
from tests.commands.conftest import Run
from tests.conftest import EPOCH
from tests.inspector.conftest import Page
from workers.api.inspector.why import NEAREST, standalone

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\" onmouseover='x' </pre></style>&lt;"


def page_of(text: str) -> str:
    thing: dict[str, Any] = {"kind": "message", "id": "1", "at": EPOCH, "speaker": text, "score": 1}
    item = ContextItem(**thing, text=text, reason=text)
    hit = Hit(**thing, preview=text, rank=1, components={text: 1, "b": -1})
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


PLAIN = Page(page_of("plain"))


@given(text=st.text() | st.just(HOSTILE))
@settings(max_examples=20)
def test_whatever_was_said_stays_text(text: str) -> None:
    # nothing runs and nothing is loaded
    page = Page(page_of(text))
    assert page.dangers == ["style"]
    assert page.names <= PLAIN.names
    assert not page.names & {"link", "a", "form", "base"}


@pytest.mark.usefixtures("house", "running")
def test_the_page_tells_all_that_an_explanation_does(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "why.html"
    shown = run("context", "which boiler did we decide on?", "--html", file, "--budget", 600)
    assert file.stat().st_mode & 0o777 == 0o600
    assert shown.code == 0
    assert "why" not in shown.out.splitlines()[0]
    html = file.read_text(encoding="utf-8")
    page = Page(html)
    assert page.dangers == ["style"]
    # the nearest misses with their words, and each reason once
    missed = html.partition("<h2>Not shown")[2].partition("<details>")[0]
    assert 1 <= missed.count("<tr>") - 1 <= NEAREST
    assert len(re.findall(r"messages? <bdi[^>]*>below minimum", missed)) <= 1
    told = "Evidence: | What decided: | by rarity | how near it is in meaning | "
    told += (
        "As the model sees it | words 0. | vectors # | no tokens were left | shown in exchanges | Not shown"
    )
    for expected in told.split(" | "):
        assert expected in page.text, expected
    assert "default-src 'none'; style-src 'unsafe-inline'" in unescape(html)
    assert {'<rect class="picked"', '<rect class="found"'} <= set(re.findall(r'<rect class="\w+"', html))
