"""What the rules, the dashboard and the scaling ask of metrics."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.deployment.conftest import CHECKOUT

FOLDER = CHECKOUT / "ops" / "monitoring"
METRIC = re.compile(r"\bbackscroll_\w+|\bup\b")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression of the rules, the dashboard and the scaling, with the text that shows its labels."""
    for rule in rules():
        yield rule["expr"], rule["annotations"]["summary"]
    for panel in json.loads((FOLDER / "grafana" / "backscroll.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for scaled in yaml.safe_load_all((FOLDER / "keda.yaml").read_text()):
        for trigger in scaled["spec"].get("triggers", ()):
            yield trigger["metadata"]["query"], ""


def labels_named(expression: str, told: str) -> set[str]:
    matched = re.findall(r"[{,] *(\w+) *[=!]", expression)
    grouped = re.findall(r"\b(?:by|ignoring|on) \((\w+)\)", expression)
    return {*matched, *grouped, *re.findall(r"\$labels\.(\w+)", told), *re.findall(r"\{\{(\w+)\}\}", told)}
