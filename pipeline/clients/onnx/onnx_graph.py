"""Write the encoder of a BERT-like model as an ONNX graph in int8, from its weights only.

Linear layers multiply bytes. Where their weights are given in 4 bits, each word piece of the input has one scale, and
each output; else each block of them does: slower, but all-MiniLM-L6-v2 has inputs far beyond the others of their word
piece, and one scale would change its vectors (cosine 0.993; 0.9988 for multilingual-e5-small). A text has the same
vector in any batch. Word embeddings given in 4 bits stay so; others become bytes with a scale for each word piece.
Everything else is float32. The operators of the domain `com.microsoft` are ONNX Runtime's own. The weights are in a
separate file, which processes that run the model share by mapping it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pipeline.clients.onnx.onnx_folder import INPUT, LENGTHS, OUTPUT, WEIGHTS

BLOCKS = (64, 32, 16)
"""Inputs of a linear layer that share a scale: the first of these numbers that divides their count."""
_BYTE = 127
# Of weights with one scale for an output: processors without VNNI add two products with inputs of up to 255 in 16 bits.
_SEVEN_BITS = 63
# the `accuracy_level` at which MatMulNBits multiplies bytes
_BYTES = 4
# zero among bytes without a sign, as ONNX Runtime wants them on the left of a product
_MIDDLE = 128
# of inputs: less is rounding
_LEAST_SCALE = 1e-12
_OURS = "com.microsoft"
_OPSET, _IR_VERSION = 17, 8


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """A matrix of values in 4 bits, in which those of a block share a scale."""

    # values in a block
    size: int
    # bytes `(rows, blocks, size / 2)` of two values with a middle zero; the lower half byte comes first
    values: NDArray[Any]
    # `(rows, blocks)`
    scales: NDArray[Any]

    def floats(self) -> NDArray[Any]:
        """Return the matrix: `(rows, blocks * size)`."""
        halves = np.stack([self.values & 15, self.values >> 4], axis=-1).astype(np.float32) - 8
        values: NDArray[Any] = halves.reshape(*self.values.shape[:2], self.size) * self.scales[:, :, None]
        return values.reshape(len(values), -1)


Weights = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class EncoderShape:
    """The parameters of an encoder that its weights do not tell."""

    layers: int
    heads: int
    # of the norms
    epsilon: float
    # the row of the position embeddings that the first word piece has
    first_position: int = 0


def write(
    path: Path,
    weights: Weights,
    shape: EncoderShape,
    distances: NDArray[Any] | None = None,
    blocks: Mapping[str, Blocks] | None = None,
) -> None:
    """Write the graph of an encoder whose weights have the names of BERT's, with GELU between its linear layers.

    Matrices are in `blocks` or in `weights`. `distances` is MPNet's attention bias by the distance of two word pieces,
    `(2 * pieces - 1, heads)`, the most negative first.
    """
    graph = _Graph(weights, blocks or {}, shape.epsilon)
    state = graph.embedded(shape.first_position)
    bias = graph.distance_bias(distances) if distances is not None else ""
    for number in range(shape.layers):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            graph.linear(f"{layer}.attention.self.{part}", state) for part in ("query", "key", "value")
        )
        heard = graph.add(
            "MultiHeadAttention",
            [query, key, value, "", LENGTHS, bias],
            domain=_OURS,
            num_heads=shape.heads,
        )
        heard = graph.linear(f"{layer}.attention.output.dense", heard)
        state = graph.norm(f"{layer}.attention.output.LayerNorm", graph.add("Add", [state, heard]))
        inner = graph.linear(f"{layer}.intermediate.dense", state)
        inner = graph.add("Gelu", [inner], domain=_OURS)
        inner = graph.linear(f"{layer}.output.dense", inner)
        state = graph.norm(f"{layer}.output.LayerNorm", graph.add("Add", [state, inner]))
    graph.save(path, state)


class _Graph:
    """Nodes and weights, added from the input to the output; methods return the name of their result."""

    def __init__(self, weights: Weights, blocks: Mapping[str, Blocks], epsilon: float) -> None:
        self._weights = weights
        self._blocks = blocks
        self._epsilon = epsilon
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        # by the input of a linear layer, as several layers may have the same
        self._quantized: dict[str, tuple[str, str]] = {}

    def add(self, operator: str, inputs: Sequence[str], *, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        name = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def embedded(self, first_position: int) -> str:
        """Look up word pieces, and add the embeddings of their positions."""
        node = self._words("embeddings.word_embeddings.weight")
        positions = self._weights["embeddings.position_embeddings.weight"][first_position:]
        if (types := self._weights.get("embeddings.token_type_embeddings.weight")) is not None:
            positions = positions + types[0]
        node = self.add("Add", [node, self._first_of(self.constant("positions", positions), axes=1)])
        return self.norm("embeddings.LayerNorm", node)

    def _words(self, name: str) -> str:
        if (blocks := self._blocks.get(name)) is not None:
            values = self.constant("words", blocks.values.reshape(len(blocks.values), -1))
            return self.add(
                "GatherBlockQuantized",
                [values, INPUT, self.constant("word_scales", blocks.scales)],
                domain=_OURS,
                bits=4,
                block_size=blocks.size,
                gather_axis=0,
                quantize_axis=1,
            )
        words = self._weights[name]
        scales = _scales(np.abs(words).max(axis=1, keepdims=True))
        table, scale = (
            self.add("Gather", [self.constant(name, value), INPUT])
            for name, value in (("words", _rounded(words / scales)), ("word_scales", scales))
        )
        return self.add("Mul", [self.add("Cast", [table], to=TensorProto.FLOAT), scale])

    def distance_bias(self, distances: NDArray[Any]) -> str:
        """Add the attention bias of each two word pieces: `(1, heads, pieces, pieces)`."""
        reach = (len(distances) + 1) // 2
        # the distance of two word pieces, as a row of `distances`
        rows = np.arange(reach)[None, :] - np.arange(reach)[:, None] + reach - 1
        near = self._first_of(self.constant("distance_rows", rows.astype(np.int32)), axes=2)
        table = self.constant("distances", distances.astype(np.float32))
        by_head = self.add("Transpose", [self.add("Gather", [table, near])], perm=[2, 0, 1])
        return self.add("Unsqueeze", [by_head, self.constant("zero", np.array([0]))])

    def linear(self, name: str, input_: str) -> str:
        bias = self.constant(f"{name}.bias", self._weights[f"{name}.bias"])
        if (blocks := self._blocks.get(f"{name}.weight")) is None:
            return self._by_blocks(name, input_, bias)
        weight = blocks.floats()
        scales = _scales(np.abs(weight).max(axis=1), _SEVEN_BITS)
        if input_ not in self._quantized:
            self._quantized[input_] = self._in_bytes(input_)
        values, scale = self._quantized[input_]
        product = self.add(
            "MatMulIntegerToFloat",
            [
                values,
                self.constant(f"{name}.weight", _rounded(weight / scales[:, None]).T),
                self.constant("one", np.array(1, np.float32)),
                self.constant(f"{name}.scale", scales),
                self.constant("middle", np.array(_MIDDLE, np.uint8)),
            ],
            domain=_OURS,
        )
        return self.add("Add", [self.add("Mul", [product, scale]), bias])

    def _by_blocks(self, name: str, input_: str, bias: str) -> str:
        weight = self._weights[f"{name}.weight"]
        size = next(size for size in BLOCKS if not weight.shape[1] % size)
        parts = weight.reshape(len(weight), -1, size)
        scales = _scales(np.abs(parts).max(axis=2, keepdims=True))
        values = (_rounded(parts / scales).astype(np.int16) + _MIDDLE).astype(np.uint8)
        return self.add(
            "MatMulNBits",
            [
                input_,
                self.constant(f"{name}.weight", values),
                self.constant(f"{name}.scale", scales[:, :, 0]),
                *("", "", bias),
            ],
            domain=_OURS,
            K=weight.shape[1],
            N=len(weight),
            bits=8,
            block_size=size,
            accuracy_level=_BYTES,
        )

    def _in_bytes(self, input_: str) -> tuple[str, str]:
        """Return word pieces in bytes, and the scale of each, `(texts, pieces, 1)`."""
        largest = self.add("ReduceMax", [self.add("Abs", [input_])], axes=[-1])
        step = self.add("Mul", [largest, self.constant("step", np.array(1 / _BYTE, np.float32))])
        scale = self.add("Max", [step, self.constant("least_scale", np.array(_LEAST_SCALE, np.float32))])
        values = self.add("Round", [self.add("Div", [input_, scale])])
        above = self.add("Add", [values, self.constant("middle_float", np.array(_MIDDLE, np.float32))])
        return self.add("Cast", [above], to=TensorProto.UINT8), scale

    def norm(self, name: str, input_: str) -> str:
        inputs = [
            input_,
            *(
                self.constant(f"{name}.{part}", self._weights[f"{name}.{part}"])
                for part in ("weight", "bias")
            ),
        ]
        return self.add("LayerNormalization", inputs, epsilon=self._epsilon)

    def save(self, path: Path, output: str) -> None:
        """Write the model, whose output is `output`."""
        dimensions = len(self._weights["embeddings.LayerNorm.bias"])
        self._nodes.append(helper.make_node("Identity", [output], [OUTPUT]))
        texts, pieces = "texts", "pieces"
        inputs = [
            helper.make_tensor_value_info(INPUT, TensorProto.INT64, [texts, pieces]),
            helper.make_tensor_value_info(LENGTHS, TensorProto.INT32, [texts]),
        ]
        outputs = [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [texts, pieces, dimensions])]
        graph = helper.make_graph(self._nodes, "encoder", inputs, outputs, list(self._constants.values()))
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_OURS, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        onnx.save(model, str(path), save_as_external_data=True, location=WEIGHTS)

    def _first_of(self, table: str, axes: int) -> str:
        """Cut a table to as many rows (with two `axes`, also columns) as there are word pieces."""
        count = self.add("Gather", [self.add("Shape", [INPUT]), self.constant("pieces_axis", np.array([1]))])
        for axis in range(axes):
            start = self.constant("zero", np.array([0]))
            table = self.add("Slice", [table, start, count, self.constant(f"axis_{axis}", np.array([axis]))])
        return table


def _scales(largest: NDArray[Any], steps: int = _BYTE) -> NDArray[Any]:
    """Return the value of one step of a byte, given the largest value, which has so many."""
    scales = (largest / steps).astype(np.float32)
    scales[scales == 0] = 1
    return scales


def _rounded(values: NDArray[Any]) -> NDArray[Any]:
    rounded: NDArray[Any] = np.clip(np.rint(values), -_BYTE, _BYTE).astype(np.int8)
    return rounded
