"""What is decided when nobody says which embedder to use."""

from pathlib import Path

import pytest

from ops.local.choices import Choices, choose_embedder
from pipeline.clients import factory
from schemas.errors import SettingsError
from schemas.settings import Settings

MODEL = "sentence-transformers/all-MiniLM-L6-v2/384"
HASH = "deterministic/deterministic-hash-v1/256"
NORMAL, LIGHT = Choices(flower_port=None), Choices(flower_port=None, asked="--light")
ENGLISH = Choices(flower_port=None, asked="--english")


def chosen(wanted: Choices, active: str | None, **given: str) -> tuple[str | None, str | None]:
    settings = Settings(_env_file=None, data_dir=Path("data"), **given)
    made = choose_embedder(settings, wanted, active)
    return made.embedding_provider, made.embedding_model


def test_new_data_gets_the_best_embedder_that_is_installed() -> None:
    assert chosen(NORMAL, None) == (factory.default_provider(), None)
    assert chosen(LIGHT, None) == ("deterministic", "deterministic-hash-v1")
    assert chosen(ENGLISH, None) == ("onnx", "all-MiniLM-L6-v2")


def test_data_goes_on_with_the_embedder_that_it_began_with() -> None:
    assert chosen(NORMAL, HASH) == ("deterministic", "deterministic-hash-v1")
    assert chosen(NORMAL, MODEL) == ("sentence-transformers", "all-MiniLM-L6-v2")
    assert chosen(NORMAL, "sentence-transformers/BAAI/bge-m3/1024")[1] == "BAAI/bge-m3"


def test_an_embedder_that_was_asked_for_is_used_whatever_the_data_has() -> None:
    asked = {"embedding_provider": "deterministic"}
    assert chosen(NORMAL, MODEL, **asked) == ("deterministic", None)


def test_data_that_a_server_embedded_sends_nothing_there_before_a_setting_says_so() -> None:
    made_by = "openai/text-embedding-3-small/1536"
    with pytest.raises(SettingsError, match="BACKSCROLL_EMBEDDING_PROVIDER=openai"):
        chosen(NORMAL, made_by, openai_api_key="sk-of-something-else")
    assert chosen(NORMAL, made_by, embedding_provider="openai") == ("openai", None)
    assert chosen(NORMAL, "ollama/nomic-embed-text/768") == ("ollama", "nomic-embed-text")


def test_a_flag_refuses_data_that_another_model_embedded() -> None:
    with pytest.raises(SettingsError, match=r"all-MiniLM-L6-v2.*--light"):
        chosen(LIGHT, MODEL)
    with pytest.raises(SettingsError, match=r"multilingual-e5-small.*--english"):
        chosen(ENGLISH, "onnx/multilingual-e5-small/384")
