"""What an operator relies on when statements are written by hand."""

import re
from pathlib import Path

import pytest

from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.memories import MAX_DOCUMENT_BYTES
from schemas.messages import ChatIn
from tests.commands.conftest import CHAT, Run, Workers
from tests.conftest import TENANT, message


@pytest.fixture
def chat(database: Database, workers: Workers) -> str:
    """A chat with one session."""
    accept.accept(
        database, TENANT, ChatIn(chat_id=CHAT), [message(n, f"step {n}", id=f"{n}") for n in range(4)]
    )
    workers.finish()
    return CHAT


def test_a_statement_is_remembered_listed_shown_in_contexts_and_removed(
    run: Run, workers: Workers, chat: str, running: object
) -> None:
    tea = run("memories", "add", "Prefers tea.", "--user", "telegram:11", "--unseen", "--json").json
    assert tea["outcome"] == "new"
    assert "known already" in run("memories", "add", "prefers  tea.", "--user", "telegram:11").out
    workers.finish()
    (listed,) = run("memories", "list", "--user", "telegram:11", "--json").json["memories"]
    assert (listed["id"], listed["scope"], listed["type"]) == (tea["id"], "user", "manual")
    found = run("memories", "search", "tea?", "--user", "telegram:11", "--limit", 1).out
    assert "Prefers tea." in found
    assert "Evidence: strong: " in found
    # what hardly answers is left out, unless it is asked for
    assert run("memories", "search", "zeppelin?", "--user", "telegram:11").out == "No memory matches.\n"
    filled = run("memories", "search", "zeppelin?", "--user", "telegram:11", "--fill").out
    assert "Prefers tea." in filled
    assert "Evidence: none: " in filled
    assert run("memories", "search", "tea?", "--scope", "agent").out == "No memory matches.\n"
    shown = run("context", "tea?", "--chat", chat, "--user", "telegram:11").out
    assert re.search(r"\[telegram:11, since [^\]]+\] Prefers tea\.", shown)
    assert run("memories", "rm", tea["id"]).out == f"{tea['id']}: removed\n"
    assert run("memories", "rm", tea["id"]).code == 3
    assert run("memories", "list", "--json").json == {"memories": []}


def test_a_file_becomes_a_document_that_is_listed_shown_replaced_and_removed(
    run: Run, tmp_path: Path, running: object
) -> None:
    file = tmp_path / "handbook.md"
    file.write_text("\ufeff" + "The ferry goes at eight. " * 300, encoding="utf-8")
    added = run("documents", "add", file, "--json").json
    assert (added["document_id"], added["outcome"]) == ("handbook.md", "new")
    (listed,) = run("documents", "list", "--json").json["documents"]
    assert (listed["source"], listed["chunks"]) == (str(file), added["chunks"])
    assert "── Doc handbook.md/Chunk 1\nThe ferry" in run("documents", "show", "handbook.md").out
    file.write_text("The ferry goes at nine.")
    assert run("documents", "add", file).out == "handbook.md: replaced, 1 chunks\n"
    assert run("documents", "show", "handbook.md", "--json").json["chunks"] == [
        {"chunk_index": 0, "content": "The ferry goes at nine."}
    ]
    assert run("documents", "remove", "handbook.md").out == "handbook.md: removed, 1 chunks\n"
    assert run("documents", "remove", "handbook.md").code == 3


def test_what_is_no_text_is_refused_with_what_to_do(run: Run, tmp_path: Path, running: object) -> None:
    cases = {
        b"%PDF-1.7 \xe2\xe3\xcf\xd3": "pdftotext",
        b"x" * (MAX_DOCUMENT_BYTES + 1): str(MAX_DOCUMENT_BYTES),
        b" \n": "content: is empty",
    }
    for content, told in cases.items():
        file = tmp_path / "file"
        file.write_bytes(content)
        refused = run("documents", "add", file)
        assert refused.code == 2
        assert told in refused.err
    assert run("documents", "list", "--json").json == {"documents": []}
