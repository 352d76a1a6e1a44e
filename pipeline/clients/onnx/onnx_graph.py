"""Write the encoder of a BERT-like model as an ONNX graph in int8 or 4 bits, from its weights only.

Linear layers multiply bytes, with a scale for each block of weights and of input: a text has the same vector in any
batch. Weights given in 4 bits stay so; other embeddings become bytes with a scale for each word piece. Everything else
is float32. The operators of the domain `com.microsoft` are ONNX Runtime's own. The weights are in a separate file,
which processes that run the model share by mapping it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from pipeline.clients.onnx.onnx_folder import INPUT, LENGTHS, OUTPUT, WEIGHTS

BLOCKS = (64, 32, 16)
"""Inputs of a linear layer that share a scale: the first of these numbers that divides their count."""
_BYTE = 127
_OURS = "com.microsoft"
# the `accuracy_level` at which MatMulNBits multiplies bytes
_BYTES = 4
_OPSET, _IR_VERSION = 17, 8


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """A matrix of integers in which the values of a block share a scale."""

    # of a value
    bits: Literal[4, 8]
    # values in a block
    size: int
    # bytes `(rows, blocks, size * bits / 8)` of values with a middle zero; the lower half byte comes first
    values: NDArray[Any]
    # `(rows, blocks)`
    scales: NDArray[Any]


Weights = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Shape:
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
    shape: Shape,
    distances: NDArray[Any] | None = None,
    blocks: Mapping[str, Blocks] | None = None,
) -> None:
    """Write the graph of an encoder whose weights have the names of BERT's, with GELU between its linear layers.

    Matrices in `blocks` are used unchanged; linear layers and words in `weights` become bytes. `distances` is
    MPNet's attention bias by the distance of two word pieces, `(2 * pieces - 1, heads)`, the most negative first.
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
                bits=blocks.bits,
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
        """Add a linear layer with a scale for each block of weights and of input."""
        blocks = self._blocks.get(f"{name}.weight") or _in_bytes(self._weights[f"{name}.weight"])
        outputs, count = blocks.scales.shape
        return self.add(
            "MatMulNBits",
            [
                input_,
                self.constant(f"{name}.weight", blocks.values),
                self.constant(f"{name}.scale", blocks.scales),
                *("", "", self.constant(f"{name}.bias", self._weights[f"{name}.bias"])),
            ],
            domain=_OURS,
            K=count * blocks.size,
            N=outputs,
            bits=blocks.bits,
            block_size=blocks.size,
            accuracy_level=_BYTES,
        )

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


def _in_bytes(weight: NDArray[Any]) -> Blocks:
    block = next(size for size in BLOCKS if not weight.shape[1] % size)
    parts = weight.reshape(len(weight), -1, block)
    scales = _scales(np.abs(parts).max(axis=2, keepdims=True))
    # unsigned, with zero in the middle
    values = (_rounded(parts / scales).astype(np.int16) + 128).astype(np.uint8)
    return Blocks(bits=8, size=block, values=values, scales=scales[:, :, 0])


def _scales(largest: NDArray[Any]) -> NDArray[Any]:
    """Return the value of one step of a byte, given the largest value."""
    scales = (largest / _BYTE).astype(np.float32)
    scales[scales == 0] = 1
    return scales


def _rounded(values: NDArray[Any]) -> NDArray[Any]:
    rounded: NDArray[Any] = np.clip(np.rint(values), -_BYTE, _BYTE).astype(np.int8)
    return rounded
