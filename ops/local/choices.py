"""Choose the ports and the embedder that settings and command line leave open."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ops.local.embedded.ports import LOOPBACK, PortTaken, free_port, is_free
from pipeline.clients import deterministic, factory, http_embedder
from pipeline.clients.onnx import onnx_bundled
from schemas.errors import SettingsError
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Options of `backscroll up` beside the settings."""

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
    taken = set[int]()

    def choose(port: int, host: str, what: str, instead: str) -> int:
        port = port or free_port(host)
        if port in taken or not is_free(port, host):
            raise PortTaken(
                f"Port {port} on {host} for {what} is taken. Stop what listens there, or {instead}."
            )
        taken.add(port)
        return port

    port = choose(settings.port, settings.host, "the HTTP API", "name another with --port")
    flower = chosen.flower_port
    if flower is not None:
        advice = "name another with --flower-port, or start with --no-flower"
        flower = choose(flower, LOOPBACK, "Flower", advice)
    advice = "name another with --metrics-port"
    metrics = choose(settings.metrics_port, settings.metrics_host, "/metrics", advice)
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
        if name == http_embedder.OPENAI:
            # with stored vectors nothing is sent elsewhere, whatever key is in the environment
            raise SettingsError(
                f"The vectors in {settings.data_dir} were made by {active}, a server that texts are sent to. Set "
                f"BACKSCROLL_EMBEDDING_PROVIDER={name} to go on so, or name another folder with --data-dir."
            )
        model = rest.rpartition("/")[0]
        return settings.model_copy(update={"embedding_provider": name, "embedding_model": model})
    chosen_provider = provider or factory.default_provider()
    return settings.model_copy(update={"embedding_provider": chosen_provider, "embedding_model": model})
