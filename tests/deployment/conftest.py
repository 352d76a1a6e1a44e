"""compose.yaml as Compose would see it, without Compose."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
VARIABLE = re.compile(r"(?<!\$)\$\{(?P<name>\w+)(?:(?P<operator>:?[-?])(?P<rest>[^}]*))?\}")


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    """The file with anchors and merges resolved, its variables as they stand."""
    read: dict[str, Any] = yaml.safe_load((CHECKOUT / "compose.yaml").read_text())
    return read


@pytest.fixture(scope="session")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Its services by name."""
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


def ours(services: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The services that run our image."""
    return {name: service for name, service in services.items() if service["image"].startswith("backscroll:")}


def seconds(duration: str) -> int:
    """A duration such as `45s` or `2m`."""
    number, unit = re.fullmatch(r"(\d+)([sm])", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]
