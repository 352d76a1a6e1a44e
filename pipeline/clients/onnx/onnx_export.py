"""Make a folder for the provider `onnx` from a model that `sentence-transformers` loads, and compare both."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from pipeline.clients.onnx import onnx_graph
from pipeline.clients.onnx.onnx import OnnxEmbedder
from pipeline.clients.onnx.onnx_folder import GRAPH, TOKENIZER, About
from pipeline.clients.protocols import Embedder
from schemas.errors import InvalidInput

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Replacements that turn names of other architectures into BERT's.
_NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "bert": (),
    "roberta": (),
    "xlm-roberta": (),
    "camembert": (),
    "mpnet": (
        ("attention.attn.q.", "attention.self.query."),
        ("attention.attn.k.", "attention.self.key."),
        ("attention.attn.v.", "attention.self.value."),
        ("attention.attn.o.", "attention.output.dense."),
        ("attention.LayerNorm.", "attention.output.LayerNorm."),
    ),
    "distilbert": (
        ("transformer.layer.", "encoder.layer."),
        ("attention.q_lin.", "attention.self.query."),
        ("attention.k_lin.", "attention.self.key."),
        ("attention.v_lin.", "attention.self.value."),
        ("attention.out_lin.", "attention.output.dense."),
        ("sa_layer_norm.", "attention.output.LayerNorm."),
        ("ffn.lin1.", "intermediate.dense."),
        ("ffn.lin2.", "output.dense."),
        ("output_layer_norm.", "output.LayerNorm."),
    ),
}
# Architectures whose first word piece has the position after padding's.
_AFTER_PADDING = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})
_EPSILON = 1e-12


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """Cosines between a graph's vectors and those of the model that it was made from."""

    texts: int
    mean: float
    least: float


def write(model: "SentenceTransformer", folder: Path, query_prefix: str) -> None:
    """Write a model into a folder, with its own prefixes; `query_prefix` where it names none for questions.

    Raises `InvalidInput`, which names the difference, for a model unlike BERT.
    """
    encoder, pooling = _parts(model)
    config = encoder.config
    kind = config.model_type
    weights = {_renamed(kind, name): value.float().numpy() for name, value in encoder.state_dict().items()}
    first = encoder.embeddings.padding_idx + 1 if kind in _AFTER_PADDING else 0
    positions = len(weights["embeddings.position_embeddings.weight"]) - first
    shape = onnx_graph.EncoderShape(
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        epsilon=getattr(config, "layer_norm_eps", _EPSILON),
        first_position=first,
    )
    distances = _distances(encoder, positions) if kind == "mpnet" else None
    onnx_graph.write(folder / GRAPH, weights, shape, distances)
    model.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER))
    prompts = {name: text for name, text in model.prompts.items() if text}
    about = About(
        dimensions=config.hidden_size,
        max_pieces=min(model.max_seq_length or positions, positions),
        pooling=pooling,
        query_prefix=prompts.get("query", query_prefix),
        document_prefix=prompts.get("document") or prompts.get("passage", ""),
    )
    about.write(folder)


def compare(original: Embedder, folder: Path, texts: Sequence[str]) -> Likeness:
    """Embed texts with a folder's graph and with the original."""
    about = About.read(folder)
    theirs = original.embed_documents([about.document_prefix + text for text in texts])
    ours = OnnxEmbedder(str(folder)).embed_documents(texts)
    cosines = [sum(a * b for a, b in zip(*pair, strict=True)) for pair in zip(theirs, ours, strict=True)]
    return Likeness(texts=len(texts), mean=fmean(cosines), least=min(cosines))


def _parts(model: "SentenceTransformer") -> tuple[Any, Literal["mean", "cls"]]:
    """Return the encoder and its pooling. Raises `InvalidInput`."""
    modules = {type(module).__name__: module for module in model}
    if unknown := sorted(modules.keys() - {"Transformer", "Pooling", "Normalize"}):
        raise _unlike(f"it has the modules {', '.join(unknown)}")
    if not modules.keys() >= {"Transformer", "Pooling"}:
        raise _unlike("it has no pooling")
    encoder = modules["Transformer"].auto_model
    config = encoder.config
    if config.model_type not in _NAMES:
        raise _unlike(f"its architecture is {config.model_type}")
    activation = getattr(config, "hidden_act", None) or getattr(config, "activation", None)
    if activation != "gelu":
        raise _unlike(f"its activation is {activation}")
    if getattr(config, "position_embedding_type", None) not in (None, "absolute"):
        raise _unlike(f"its positions are {config.position_embedding_type}")
    inner = getattr(config, "intermediate_size", None) or config.hidden_dim
    if config.hidden_size % onnx_graph.BLOCKS[-1] or inner % onnx_graph.BLOCKS[-1]:
        raise _unlike(f"its sizes are no multiples of {onnx_graph.BLOCKS[-1]}")
    if not hasattr(model.tokenizer, "backend_tokenizer"):
        raise _unlike("its tokenizer is not one of the package tokenizers")
    layer = modules["Pooling"]
    # the name in older versions of the package
    pooling = getattr(layer, "pooling_mode", None) or layer.get_pooling_mode_str()
    if pooling == "mean":
        return encoder, "mean"
    if pooling == "cls":
        return encoder, "cls"
    raise _unlike(f"its pooling is {pooling}")


def _unlike(difference: str) -> InvalidInput:
    return InvalidInput(
        f"Only models like BERT can be exported ({', '.join(_NAMES)}; GELU; mean or cls pooling), and of this one "
        f"{difference}. The provider sentence-transformers runs it as it is.",
        field="model",
    )


def _renamed(kind: str, name: str) -> str:
    for theirs, ours in _NAMES[kind]:
        name = name.replace(theirs, ours)
    return name


def _distances(encoder: Any, positions: int) -> Any:
    """Return MPNet's attention bias for each distance of two word pieces, the most negative distance first."""
    import torch

    inner = encoder.encoder
    buckets = inner.relative_position_bucket(
        torch.arange(1 - positions, positions), num_buckets=encoder.config.relative_attention_num_buckets
    )
    return inner.relative_attention_bias.weight.detach()[buckets].float().numpy()
