"""Make embedding models ready for this machine."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from ops.console import rendering
from ops.console.command import JsonOption, command
from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from schemas.errors import InvalidInput

app = typer.Typer(help=__doc__, rich_markup_mode="markdown", no_args_is_help=True)

COMPARED = 400
"""Texts of the samples that are embedded by both, at most."""


@app.callback()
def _group() -> None:
    """Keep `export` a command of its own while it is the only one."""


@command(app, "backscroll model export BAAI/bge-small-en-v1.5 ./bge-small")
def export(
    model: Annotated[str, "A model on the Hugging Face hub, or its folder."],
    folder: Annotated[Path, "The folder to make; it must not be there yet."],
    min_cosine: Annotated[
        float, typer.Option(min=0, max=1, help="Refuse a graph whose vectors are less like the model's.")
    ] = 0.99,
    as_json: JsonOption = False,
) -> None:
    """Make a folder for the provider `onnx` of a model like BERT that sentence-transformers loads.

    The graph multiplies bytes, so it takes a quarter of the memory and a fraction of the time, and needs no
    torch; making it does (extra `sentence-transformers`). It is compared with the model on the sample chats,
    and refused with 5 when the mean cosine of their vectors is too low. Then set
    `BACKSCROLL_EMBEDDING_PROVIDER=onnx` and `BACKSCROLL_EMBEDDING_MODEL` to the folder.
    """
    from pipeline.clients.onnx import onnx_export, onnx_folder
    from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder

    if folder.exists():
        raise InvalidInput(f"{folder} exists already: name a new folder", field="folder")
    original = SentenceTransformersEmbedder(model)
    facts: dict[str, Any] = {"model": model, "folder": str(folder.absolute())}
    refused: list[str] = []

    def make(new: Path) -> None:
        loaded = original.load()
        onnx_export.write(loaded, new, original.space.query_prefix)
        likeness = onnx_export.compare(original, new, _texts())
        size = sum(path.stat().st_size for path in new.iterdir())
        facts.update(
            texts=likeness.texts, mean_cosine=round(likeness.mean, 4), megabytes=round(size / 1e6, 1)
        )
        facts.update(least_cosine=round(likeness.least, 4))
        if likeness.mean < min_cosine:
            refused.append(f"the mean cosine to the model is {likeness.mean:.4f}, under {min_cosine}")
            raise _Refused

    with rendering.err().status(f"exporting {model}"):
        try:
            onnx_folder.replace_folder(folder, make)
        except _Refused:
            facts["folder"] = None
        except OSError as error:
            raise InvalidInput(f"{folder} cannot be made: {error}", field="folder") from error
    facts["refused"] = refused
    mean, least = (facts[key] for key in ("mean_cosine", "least_cosine"))
    if as_json:
        rendering.print_json(facts)
    elif refused:
        print(f"Refused: {refused[0]}.")
    else:
        print(
            f"{folder}: {facts['megabytes']} MB; cosine to the model {mean} in the mean of {facts['texts']} texts, at "
            f"least {least}. Use it:\n"
            f"BACKSCROLL_EMBEDDING_PROVIDER=onnx BACKSCROLL_EMBEDDING_MODEL={facts['folder']}"
        )
    if refused:
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


class _Refused(Exception):
    """The graph is not good enough; the folder is not made."""


def _texts() -> list[str]:
    """Return messages of the sample chats, from all over them."""
    samples = (files("ops") / "local" / "samples").iterdir()
    lines = [
        json.loads(line)
        for sample in sorted(samples, key=lambda sample: sample.name)
        if sample.name.endswith(".jsonl")
        for line in sample.read_text(encoding="utf-8").splitlines()
    ]
    texts = [line["content"] for line in lines if line.get("content")]
    return texts[:: max(1, len(texts) // COMPARED)][:COMPARED]
