"""Read the bundled models' weights and vocabularies from the files in their packages.

The file of multilingual-e5-small, little-endian: a header, the pieces and their scores, replacements of single
characters, a directory of tensors, the tensors: float32, or blocks of 32 values with a scale each (`Q4_0`).
"""

import json
import shutil
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.clients.onnx import onnx_graph
from pipeline.clients.onnx.onnx import Vocabulary
from pipeline.clients.onnx.onnx_folder import ENGLISH_FILES, GRAPH, TOKENIZER, UNIGRAM
from pipeline.clients.onnx.onnx_graph import Blocks

WEIGHTS = "e5-small-q4.bin"
_IN_BLOCKS = 1
_BLOCK = 32
_SCALE_BYTES = 2
_MAGIC_BYTES = 8
# the file's names of tensors, and BERT's
_NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_PARTS = {"w": "weight", "b": "bias"}


class _Reader:
    """Reads values in sequence."""

    def __init__(self, path: Path) -> None:
        self.bytes: NDArray[Any] = np.memmap(path, np.uint8, "r")
        self._at = _MAGIC_BYTES

    def values(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{layout}", self.bytes.data, self._at)
        self._at += struct.calcsize(f"<{layout}")
        return values

    def array(self, kind: type, count: int) -> NDArray[Any]:
        array: NDArray[Any] = np.frombuffer(self.bytes.data, kind, count, self._at)
        self._at += array.nbytes
        return array


def make_e5(package: Path, folder: Path) -> None:
    """Write the graph and the vocabulary to a folder, from the package's."""
    file = _Reader(package / WEIGHTS)
    hidden, layers, heads, _inner, words, positions, types = file.values("7i")
    epsilon, _block = file.values("fi")
    vocabulary = _vocabulary(file)
    (folder / UNIGRAM).write_text(vocabulary.model_dump_json(), encoding="utf-8")
    rows = {"emb.word": words, "emb.pos": positions, "emb.type": types}
    weights, blocks = _tensors(file, rows, hidden)
    shape = onnx_graph.EncoderShape(layers=layers, heads=heads, epsilon=epsilon)
    onnx_graph.write(folder / GRAPH, weights, shape, blocks=blocks)


def _vocabulary(file: _Reader) -> Vocabulary:
    count, begin, end, padding, unknown = file.values("5i")
    (size,) = file.values("Q")
    starts = file.array(np.uint32, count + 1).tolist()
    scores = file.array(np.float32, count).tolist()
    text = file.array(np.uint8, size).tobytes()
    pieces = [text[start:stop].decode() for start, stop in pairwise(starts)]
    for special in (begin, end, padding, unknown):
        pieces[special] = ""
    replaced, _size = file.values("iI")
    replacements = {}
    for _ in range(replaced):
        character, length = file.values("IB")
        replacements[chr(character)] = "".join(map(chr, file.values(f"{length}I")))
    return Vocabulary(
        pieces=pieces, scores=scores, replacements=replacements, begin=begin, end=end, unknown=unknown
    )


def _tensors(
    file: _Reader, rows: Mapping[str, int], hidden: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Blocks]]:
    """Return the tensors by BERT's names; a linear layer has as many rows as its bias has values."""
    directory = {}
    for _ in range(*file.values("i")):
        (length,) = file.values("H")
        name = file.array(np.uint8, length).tobytes().decode()
        kind, _count, offset, size = file.values("BIQQ")
        directory[name] = kind, file.bytes[offset : offset + size]
    weights, blocks = {}, {}
    for name, (kind, raw) in directory.items():
        if kind == _IN_BLOCKS:
            count = rows.get(name) or len(directory[name.removesuffix("w") + "b"][1]) // 4
            blocks[_renamed(name)] = _blocks(raw, count)
        else:
            numbers = raw.view(np.float32)
            weights[_renamed(name)] = numbers.reshape(-1, hidden) if name in rows else numbers
    return weights, blocks


def _blocks(raw: NDArray[Any], rows: int) -> Blocks:
    """Repack a matrix whose bytes hold values `n` and `n + 16` of a block, so that bytes hold neighbours."""
    blocks = raw.reshape(rows, -1, _SCALE_BYTES + _BLOCK // 2)
    scales = blocks[:, :, :_SCALE_BYTES].copy().view(np.float16)[:, :, 0]
    low_first = np.concatenate([blocks[:, :, _SCALE_BYTES:] & 15, blocks[:, :, _SCALE_BYTES:] >> 4], axis=2)
    values = low_first[:, :, 0::2] | low_first[:, :, 1::2] << 4
    return Blocks(size=_BLOCK, values=values, scales=scales.astype(np.float32))


def _renamed(name: str) -> str:
    """Return BERT's name of a tensor.

    >>> _renamed("l7.ao.w"), _renamed("emb.ln.b"), _renamed("emb.word")
    ('encoder.layer.7.attention.output.dense.weight', 'embeddings.LayerNorm.bias', 'embeddings.word_embeddings.weight')
    """
    if name in _NAMES:
        return _NAMES[name]
    prefix, _, part = name.rpartition(".")
    layer, _, inner = prefix.rpartition(".")
    if prefix in _NAMES:
        return f"{_NAMES[prefix]}.{_PARTS[part]}"
    return f"encoder.layer.{layer.removeprefix('l')}.{_NAMES[inner]}.{_PARTS[part]}"


def make_minilm(package: Path, folder: Path) -> None:
    """Write the graph and the tokenizer to a folder, from the package's."""
    source = package / ENGLISH_FILES
    config = json.loads((source / "config.json").read_bytes())
    shape = onnx_graph.EncoderShape(
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
