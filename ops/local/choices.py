"""The ports and the embedder, where settings and command line leave them open."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ops.local.embedded.ports import PortTaken, free_port, is_free
from pipeline.clients import deterministic, factory
from pipeline.clients.onnx import onnx_bundled
from pipeline.clients.openai import openai_embeddings
from schemas.errors import SettingsError
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What `backscroll up` starts, besides what the settings say."""

    # None: without Flower
    flower_port: int | None
    # the flag of `MODELS` that was given
    asked: str | None = None


MODELS: Mapping[str, tuple[Literal["deterministic", "onnx"], str]] = {
    "--light": ("deterministic", deterministic.MODEL),
    "--english": ("onnx", onnx_bundled.ENGLISH.model),
}
"""The provider and the model that each of these flags of `backscroll up` selects."""


def choose_ports(settings: Settings, chosen: Choices) -> tuple[Settings, Choices]:
    """Replace each port 0 by a free port. Raises `PortTaken`."""
    port = settings.port or free_port(settings.host)
    if not is_free(port, settings.host):
        raise PortTaken(
            f"Port {port} on {settings.host} for the HTTP API is taken. Stop what listens there, or name another "
            "with --port."
        )
    flower = chosen.flower_port
    if flower is not None:
        flower = flower or free_port()
        if flower == port or not is_free(flower):
            raise PortTaken(
                f"Port {flower} for Flower is taken. Stop what listens there, name another with --flower-port, or "
                "start with --no-flower."
            )
    metrics = settings.metrics_port or free_port(settings.metrics_host)
    if metrics in {port, flower} or not is_free(metrics, settings.metrics_host):
        raise PortTaken(
            f"Port {metrics} on {settings.metrics_host} for /metrics is taken. Stop what listens there, or name "
            "another with --metrics-port."
        )
    ports = {"port": port, "metrics_port": metrics}
    return settings.model_copy(update=ports), replace(chosen, flower_port=flower)


def choose_embedder(settings: Settings, chosen: Choices, active: str | None) -> Settings:
    """Complete the settings by the embedder: that of the stored vectors, unless another was asked for.

    `active` is the name of their space. Raises `SettingsError` if a flag asks for a model that is not theirs, or if
    they were made by a server that may be elsewhere.
    """
    provider, model = settings.embedding_provider, settings.embedding_model
    if chosen.asked is not None:
        provider, model = MODELS[chosen.asked]
        if active and not active.startswith(f"{provider}/{model}/"):
            raise SettingsError(
                f"The vectors in {settings.data_dir} were made by {active}, which the model of {chosen.asked} cannot "
                f"compare with. Leave {chosen.asked} out, or name another folder with --data-dir."
            )
    elif provider is None and model is None and active:
        name, _, rest = active.partition("/")
        if name == openai_embeddings.PROVIDER:
            # stored data sends nothing anywhere, with whatever key lies in the environment
            raise SettingsError(
                f"The vectors in {settings.data_dir} were made by {active}, a server that texts are sent to. Set "
                f"BACKSCROLL_EMBEDDING_PROVIDER={name} to go on so, or name another folder with --data-dir."
            )
        model = rest.rpartition("/")[0]
        return settings.model_copy(update={"embedding_provider": name, "embedding_model": model})
    chosen_provider = provider or factory.default_provider()
    return settings.model_copy(update={"embedding_provider": chosen_provider, "embedding_model": model})
