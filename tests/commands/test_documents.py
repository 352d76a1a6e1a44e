"""What an operator relies on when the organization has documents."""

from pathlib import Path

from schemas.memory.documents import MAX_DOCUMENT_BYTES
from tests.commands.conftest import Run


def test_a_file_becomes_a_document_that_is_listed_shown_replaced_and_removed(
    run: Run, tmp_path: Path, running: object
) -> None:
    file = tmp_path / "handbook.md"
    file.write_text("\ufeff" + "The ferry goes at eight. " * 300, encoding="utf-8")
    added = run("documents", "add", file, "--json").json
    assert (added["document_id"], added["outcome"]) == ("handbook.md", "new")
    assert added["chunks"] == added["written"] > 1
    (listed,) = run("documents", "list", "--json").json["documents"]
    assert (listed["source"], listed["chunks"]) == (str(file), added["chunks"])
    assert "handbook.md" in run("documents", "list", "--limit", 1).out
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
    assert run("documents", "add", tmp_path / "nothing").code == 2
    assert run("documents", "list", "--json").json == {"documents": []}
