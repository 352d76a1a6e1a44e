"""Choose the ports and the embedder that settings and command line leave open."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from errno import EADDRINUSE
from typing import Literal

from ops.local.embedded.server import LOOPBACK, PortTaken, reserved_port
from pipeline.clients import deterministic, factory, http_embedder
from pipeline.clients.onnx import onnx_folder
from schemas.errors import SettingsError
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Options of `backscroll up` beside the settings."""

    flower: bool = True
    # the flag of `MODELS` that was given
    asked: str | None = None


MODELS: Mapping[str, tuple[Literal["deterministic", "onnx"], str]] = {
    "--light": ("deterministic", deterministic.MODEL),
    "--english": ("onnx", onnx_folder.ENGLISH.model),
}
"""The provider and the model that each of these flags of `backscroll up` selects."""


LISTENERS = (
    # the settings of port and address, what listens there, and what to do beside stopping whoever has the port
    ("port", "host", "the HTTP API", "name another with --port"),
    ("flower_port", None, "Flower", "name another with --flower-port, or start with --no-flower"),
    ("metrics_port", "metrics_host", "/metrics", "name another with --metrics-port"),
)
DEFAULT_PORT: int = Settings.model_fields["port"].default
NEIGHBOURS = 100
"""Ports that are tried for one that was not named, before any free one is taken."""


def choose_ports(
    settings: Settings, chosen: Choices, cleanup: ExitStack, say: Callable[[str], None]
) -> Settings:
    """Complete the settings by ports that are reserved until the cleanup, and say which differ from the defaults.

    A port that was named is used or refused; 0 stands for any free one. Another lies as far above the HTTP API's as
    its default does, or is the next free one. Raises `PortTaken`.
    """
    ports: dict[str, int] = {}
    moved = []
    named = settings.model_fields_set
    # those that were named first: no other is to take them
    for name, address, what, advice in sorted(LISTENERS, key=lambda listener: listener[0] not in named):
        if name == "flower_port" and not chosen.flower:
            continue
        default, host = getattr(settings, name), getattr(settings, address) if address else LOOPBACK
        first = default + (0 if name in named else ports.get("port", DEFAULT_PORT) - DEFAULT_PORT)
        candidates = [first] if name in named else [*range(first, min(first + NEIGHBOURS, 1 << 16)), 0]
        for port in candidates:
            try:
                ports[name] = cleanup.enter_context(reserved_port(port, host))
                break
            except OSError as error:
                why = f"cannot be used ({error.strerror}): correct that"
                if error.errno == EADDRINUSE:
                    if port != candidates[-1]:
                        continue
                    why = "is taken: stop what listens there (`ss -ltnp` names it)"
                raise PortTaken(f"Port {port} on {host} for {what} {why}, or {advice}.") from error
        if name not in named and ports[name] != default:
            moved.append(f"{what} {ports[name]}" + (f" ({first} is taken)" if ports[name] != first else ""))
    if moved:
        say(f"Ports that were not named: {', '.join(moved)}")
    return settings.model_copy(update=ports)


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
