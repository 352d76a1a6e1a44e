"""Decides what settings and command line leave open: which ports, and which embedder."""

from dataclasses import dataclass, replace

from ops.embedded.ports import PortTaken, free_port, is_free
from pipeline.clients import factory
from schemas.errors import SettingsError
from schemas.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to start, besides what the settings say."""

    # none: without Flower
    flower_port: int | None
    # the embedder that needs no model, whatever is installed
    light: bool = False


def choose_ports(settings: Settings, wanted: Wanted) -> tuple[Settings, Wanted]:
    """Both with a free port in place of each 0. Raises `PortTaken`."""
    port = settings.port or free_port(settings.host)
    if not is_free(port, settings.host):
        raise PortTaken(
            f"Port {port} on {settings.host}, wanted for the HTTP door, is taken. Stop what listens there, "
            "or name another with --port."
        )
    flower = wanted.flower_port
    if flower is not None:
        flower = flower or free_port()
        if flower == port or not is_free(flower):
            raise PortTaken(
                f"Port {flower}, wanted for Flower, is taken. Stop what listens there, name another with "
                "--flower-port, or start with --no-flower."
            )
    return settings.model_copy(update={"port": port}), replace(wanted, flower_port=flower)


def choose_embedder(settings: Settings, wanted: Wanted, active: str | None) -> Settings:
    """The settings with the embedder to use: that of the vectors already there, unless another was asked for.

    `active` is the name of their space. Raises `SettingsError` when --light was asked for and is not it.
    """
    provider, model = settings.embedding_provider, settings.embedding_model
    if wanted.light:
        provider, model = "deterministic", None
        if active and not active.startswith("deterministic/"):
            raise SettingsError(
                f"The vectors in {settings.data_dir} were made by {active}, which --light cannot compare "
                "with. Leave --light out, or name another folder with --data-dir."
            )
    elif provider is None and model is None and active:
        name, _, rest = active.partition("/")
        model = rest.rpartition("/")[0]
        return settings.model_copy(update={"embedding_provider": name, "embedding_model": model})
    chosen = provider or factory.default_provider()
    return settings.model_copy(update={"embedding_provider": chosen, "embedding_model": model})
