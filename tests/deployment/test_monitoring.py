"""What the dashboard and the rules of ops/monitoring name is there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

from ops import cli
from tests.conftest import CHECKOUT
from tests.guide.pages import Page

FOLDER = CHECKOUT / "ops" / "monitoring"
METRIC = re.compile(r"\bbackscroll_\w+|\bup\b")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression of the rules and the dashboard, with the text that shows its labels."""
    for rule in rules():
        yield rule["expr"], rule["annotations"]["summary"]
    for panel in json.loads((FOLDER / "grafana" / "backscroll.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def labels_named(expression: str, told: str) -> set[str]:
    matched = re.findall(r"[{,] *(\w+) *[=!]", expression)
    grouped = re.findall(r"\b(?:by|ignoring|on) \((\w+)\)", expression)
    return {*matched, *grouped, *re.findall(r"\$labels\.(\w+)", told), *re.findall(r"\{\{(\w+)\}\}", told)}


def test_every_rule_names_a_command_and_a_section_that_exist() -> None:
    for rule in rules():
        told, _, place = rule["annotations"]["runbook"].partition("; ")
        name, *options = told.strip("`").removeprefix("backscroll ").split()
        command = typer.main.get_command(cli.app).get_command(None, name)  # type: ignore[attr-defined, arg-type]
        assert command is not None, told
        known = {spelling for parameter in command.params for spelling in parameter.opts}
        assert {option for option in options if option.startswith("--")} <= known, told
        path, _, anchor = place.partition("#")
        assert anchor in Page(CHECKOUT / path).anchors, place
        assert rule["labels"]["severity"] in {"critical", "warning"}


def test_compose_hands_every_file_of_the_folder_to_its_service(compose: dict[str, Any]) -> None:
    handed = {Path(each["file"]) for each in compose["configs"].values()}
    assert {CHECKOUT / path for path in handed} == {path for path in FOLDER.rglob("*") if path.is_file()}
    used = {each["source"] for service in compose["services"].values() for each in service.get("configs", ())}
    assert used == compose["configs"].keys()
    (target,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    assert target["targets"] == [
        f"metrics:{compose['services']['metrics']['environment']['BACKSCROLL_METRICS_PORT']}"
    ]
