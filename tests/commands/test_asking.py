"""A question on the command line gets what a bot would get, and the reasons for it."""

import pytest

from tests.commands.conftest import CHAT, Run
from tests.platforms.reading import FIXTURES

QUESTION = "was it the pressure sensor of the boiler?"

pytestmark = pytest.mark.usefixtures("house")


def test_a_context_holds_what_was_said_and_with_reasons_why_each_line_is_there(
    run: Run, running: object
) -> None:
    plain = run("context", QUESTION, "--chat", CHAT)
    assert (plain.code, plain.err) == (0, "")
    assert "pressure sensor" in plain.out
    assert plain.out.rstrip().endswith(QUESTION)
    whole = run("context", QUESTION, "--explain-all", "--budget", 500).out
    for expected in (
        *("Shown", "Sessions found", "Messages found", "text and why", "meaning 0.", "vectors #"),
        *("shown in exchanges", "Not shown", "milliseconds", "of 500"),
    ):
        assert expected in whole
    assert run("context", QUESTION, "--json").json["explain"] is None
    also = run("context", "War es der Fühler?", "--also", QUESTION, "--no-history", "--explain-all").out
    assert "by query 1" in also
    assert run("context", QUESTION, "--explain", "--json").json["explain"]["messages"][0]["components"]
    # and it is short unless all of it is wanted
    short = run("context", QUESTION, "--explain", "--user", "telegram:11").out
    why = short[short.index("─ why ─") :]
    assert len(why.splitlines()) < 50
    for expected in ("The best 10 of ", "match 1: ", "Not shown", "--explain-all", "asked by"):
        assert expected in why


def test_search_has_every_mode_and_filter_of_the_api(run: Run, running: object) -> None:
    hits = run("search", "pressure sensor", "--limit", 3, "--json").json["hits"]
    assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
    exact = run("search", "PRESSURE sensor", "--mode", "exact", "--json").json["hits"]
    assert exact
    assert all("pressure sensor" in hit["text"].lower() for hit in exact)
    theme = run("search", "boiler", "--mode", "topic", "--since", "2020-01-01", "--limit", 50, "--json").json
    times = [hit["started_at"] for hit in theme["sessions"]]
    assert len(times) > 3
    assert times == sorted(times)
    told = run("search", "the boiler's pressure sensor", "--mode", "contextual").out
    assert "•" in told
    assert exact[0]["speaker"] in told
    for nothing in (["--role", "assistant", "--sender", "telegram:11"], ["--metadata", "a=b"]):
        assert run("search", "boiler", *nothing, "--json").json["hits"] == []
    assert "Nothing in" in run("search", "zeppelin", "--mode", "exact").out


def test_more_goes_through_a_session_page_by_page(run: Run, running: object) -> None:
    hit = run("search", "pressure sensor", "--limit", 1, "--json").json["hits"][0]
    page = run("more", hit["session_id"], "--shown", hit["id"], "--limit", 4, "--json").json
    assert len(page["messages"]) == 4
    assert hit["id"] not in [line["id"] for line in page["messages"]]
    told = run("more", hit["session_id"], "--shown", hit["id"], "--limit", 4)
    assert f"backscroll more {hit['session_id']} --shown {hit['id']} --shown" in told.out
    assert "That is all of this session." in run("more", hit["session_id"], "--limit", 100).out
    assert run("more", 1_000_000).code == 3
    # the chat is that of the session
    run("import", FIXTURES / "jsonl/garden.jsonl")
    assert run("more", 30, "--json").json["session_id"] == 30
    assert run("more", 30, "--chat", "app:garden").code == 3


def test_the_chat_must_be_named_where_there_are_several(run: Run, running: object) -> None:
    run("import", FIXTURES / "jsonl/garden.jsonl")
    for command in ("context", "search"):
        asked = run(command, "boiler")
        assert asked.code == 2
        assert "--chat" in asked.err
        assert CHAT in asked.err
        missed = run(command, "boiler", "--chat", "telegram:100420")
        assert missed.code == 3
        assert "did you mean telegram:-100420 (Harbour House)?" in missed.err


def test_what_cannot_be_asked_is_named_with_what_is_allowed(run: Run, running: object) -> None:
    for words, named, allowed in (
        (["context", ""], "query", "at least 1 character"),
        (["context", "hi", "--budget", 10], "budget_tokens", "greater than or equal to 50"),
        (["context", "hi", "--profile", "fancy"], "profile", "balanced, group, ask"),
        (["search", "hi", "--mode", "fuzzy"], "mode", "'hybrid'"),
        (["search", "hi", "--limit", 101], "--limit", "100"),
        (["search", "hi", "--since", "yesterday"], "since", "2026-01-31T18:00"),
        (["search", "hi", "--metadata", "x"], "--metadata", "NAME=TEXT"),
        (["memories", "search", "hi", "--type", "gossip"], "types.0", "'fact'"),
    ):
        told = run(*words)
        assert (told.code, named in told.err, allowed in told.err) == (2, True, True), told.err
    missed = run("context", "hi", "--chat", "app:a/b c?#ü")
    assert (missed.code, "there is no chat app:a/b c?#ü" in missed.err) == (3, True)


def test_a_search_that_finds_nothing_says_that_nobody_of_this_id_was_ever_seen(
    run: Run, running: object
) -> None:
    for asked in (["--user", "telegrm:11"], ["--sender", "telegrm:11", "--mode", "exact"]):
        missed = run("search", "zeppelin", *asked, "--json")
        assert (missed.code, missed.out) == (3, "")
        assert "telegrm:11 was never seen; did you mean telegram:11" in missed.err
    assert (
        run("search", "zeppelin", "--mode", "exact", "--sender", "telegram:11", "--json").json["hits"] == []
    )
