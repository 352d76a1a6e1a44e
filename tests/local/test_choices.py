"""What is decided when nobody says which embedder to use."""

from pathlib import Path

import pytest

from ops.local.choices import Choices, choose_embedder
from pipeline.clients import factory
from schemas.errors import SettingsError
from schemas.settings import Settings

MODEL = "sentence-transformers/all-MiniLM-L6-v2/384"
OPENAI = "openai/text-embedding-3-small/1536"
HASH = "deterministic/deterministic-hash-v1/256"
NORMAL, LIGHT = Choices(flower_port=None), Choices(flower_port=None, asked="--light")
ENGLISH = Choices(flower_port=None, asked="--english")


def chosen(wanted: Choices, active: str | None, **given: str) -> tuple[str | None, str | None]:
    settings = Settings(_env_file=None, data_dir=Path("data"), **given)
    made = choose_embedder(settings, wanted, active)
    return made.embedding_provider, made.embedding_model


@pytest.mark.parametrize(
    ("wanted", "active", "asked", "embedder"),
    [
        # new data gets the best that is installed
        (NORMAL, None, None, (factory.default_provider(), None)),
        (LIGHT, None, None, ("deterministic", "deterministic-hash-v1")),
        (ENGLISH, None, None, ("onnx", "all-MiniLM-L6-v2")),
        # data goes on with the one that it began with
        (NORMAL, HASH, None, ("deterministic", "deterministic-hash-v1")),
        (NORMAL, MODEL, None, ("sentence-transformers", "all-MiniLM-L6-v2")),
        (NORMAL, "sentence-transformers/BAAI/bge-m3/1024", None, ("sentence-transformers", "BAAI/bge-m3")),
        (NORMAL, "ollama/nomic-embed-text/768", None, ("ollama", "nomic-embed-text")),
        # unless another one is asked for
        (NORMAL, MODEL, "deterministic", ("deterministic", None)),
        (NORMAL, OPENAI, "openai", ("openai", None)),
    ],
)
def test_the_embedder_is_the_one_that_is_asked_for_or_that_the_data_has(
    wanted: Choices, active: str | None, asked: str | None, embedder: tuple[str, str | None]
) -> None:
    assert chosen(wanted, active, **({"embedding_provider": asked} if asked else {})) == embedder


@pytest.mark.parametrize(
    ("wanted", "active", "told"),
    [
        # nothing is sent to a server before a setting says so
        (NORMAL, OPENAI, "BACKSCROLL_EMBEDDING_PROVIDER=openai"),
        (LIGHT, MODEL, r"all-MiniLM-L6-v2.*--light"),
        (ENGLISH, "onnx/multilingual-e5-small/384", r"multilingual-e5-small.*--english"),
    ],
)
def test_what_does_not_go_with_the_data_is_refused(wanted: Choices, active: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        chosen(wanted, active, openai_api_key="sk-of-something-else")
