"""Every page in a real Chromium: it fits a phone, works by keyboard, and what people wrote runs nothing."""

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from pipeline.store.connections.database import Database
from tests.commands.conftest import CHAT
from tests.inspector.browser import PROGRAM, Browser, browser
from tests.inspector.conftest import EVIL, SCRIPT, Page, logged_in

Standing = tuple[httpx.Client, Database]
NONE = "there is no Chromium on this machine: NOT TRIED are the inspector's pages in a browser (apt install chromium)"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip(NONE)
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def test_every_page_fits_runs_nothing_that_was_said_and_breaks_no_rule(
    tab: Browser, standing: Standing
) -> None:
    api, _ = standing
    api.post("/v1/context", json={"chat_id": EVIL, "query": SCRIPT})
    with logged_in(api) as client:
        ((name, value),) = client.cookies.items()
        found = {"/inspect/login"}
        # what the links lead to: a page of each kind, of the hostile chat
        for start in ("/inspect/queries", f"/inspect/chats/{quote(EVIL, safe='')}"):
            links = [href.partition("#")[0] for href, _ in Page(client.get(start).text).links]
            kinds = {
                href.split("/")[2].partition("?")[0]: href for href in links if href.startswith("/inspect/")
            }
            found |= {start, *kinds.values()}
    assert len(found) >= 10
    cookie = {"name": name, "value": value, "path": "/inspect", "url": str(api.base_url)}
    tab.call("Network.setCookie", **cookie, httpOnly=True)
    tab.problems.clear()
    for path in sorted(found):
        for width, dark in ((1280, False), (390, True)):
            tab.show(width, dark=dark)
            tab.open(f"{str(api.base_url).rstrip('/')}{path}")
            assert tab.value("document.documentElement.scrollWidth") <= width, path
            assert tab.value("document.title") != "owned"
            assert not tab.problems, path
            back = tab.value("getComputedStyle(document.body).backgroundColor")
            assert (back == "rgb(20, 23, 26)") == dark


def test_it_is_used_by_keyboard_alone(tab: Browser, standing: Standing) -> None:
    api, _ = standing
    tab.call("Network.clearBrowserCookies")
    tab.show(1280, dark=False)
    tab.open(f"{str(api.base_url).rstrip('/')}/inspect/ask")
    # the login has the focus in its field
    tab.wait("document.activeElement.name === 'key'")
    tab.type("test-key")
    tab.press("Enter", 13, "\r")
    tab.wait("location.pathname === '/inspect/ask' && document.readyState === 'complete'")
    # the first stop leads past the pages to the content
    tab.press("Tab", 9)
    assert tab.value("document.activeElement.textContent") == "Skip to the content"
    assert tab.value("document.activeElement.getBoundingClientRect().top") >= 0
    assert tab.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.press("Enter", 13, "\r")
    tab.wait("document.activeElement.id === 'main'")
    for name, text in (("query", "Where did Olek find his key?"), ("chat_id", CHAT)):
        tab.press("Tab", 9)
        assert tab.value("document.activeElement.name") == name
        tab.type(text)
    tab.press("Enter", 13, "\r")
    # the answer takes its place on the same page
    tab.wait("document.querySelector('#answer').textContent.includes('rosin')")
    assert tab.value("document.querySelector('[name=query]').value") == "Where did Olek find his key?"
    assert not tab.problems
    # and so does what is wrong with the next one
    tab.value("document.querySelector('[name=budget_tokens]').focus()")
    tab.type("many")
    tab.press("Enter", 13, "\r")
    tab.wait("document.querySelector('#answer').textContent.includes('budget_tokens')")
