"""What the dashboard and the rules of ops/monitoring name is there, and each rule fires and clears."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ops import cli
from pipeline.store.connections.database import Database
from pipeline.store.models import llm_limits
from schemas.settings import Settings
from tests.conftest import CHECKOUT
from tests.guide.pages import Page
from tests.metrics.conftest import serving

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


def test_every_metric_and_label_that_is_named_is_shown(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    (settings.data_dir / "postgres-18").mkdir(parents=True)
    with database.tenant("") as connection:
        llm_limits.lock(connection, "models.example:443")
    with serving(settings, tmp_path, BACKSCROLL_LLM_DAILY_TOKENS="1000") as ask:
        families = list(text_string_to_metric_families(ask()))
    shown = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    shown["up"] = {"job"}
    for expression, told in expressions():
        names = METRIC.findall(expression)
        assert names, expression
        assert set(names) <= shown.keys(), expression
        assert labels_named(expression, told) <= set().union(*(shown[name] for name in names)), expression


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


# By alert: series, each with what it is minute by minute while it is bad, and while it is well again.
BAD = {
    "MetricsDown": {'up{job="backscroll"}': ("0x60", "1x60")},
    "SnapshotStale": {'backscroll_snapshot_age_seconds{source="redis"}': ("100+60x60", "5x60")},
    "PostgresDown": {"backscroll_postgres_up": ("0x60", "1x60")},
    "RedisDown": {"backscroll_redis_up": ("0x60", "1x60")},
    "QueueWithoutWorker": {'backscroll_queue_workers{queue="embed"}': ("0x60", "1x60")},
    "SweepStopped": {"backscroll_sweep_age_seconds": ("301+60x60", "3x60")},
    "JobsLate": {'backscroll_job_late_seconds{kind="embed"}': ("601+60x60", "0x60")},
    "MessagesWait": {'backscroll_lag_seconds{until="placed"}': ("121+60x60", "0x60")},
    "DeadLetters": {'backscroll_jobs{kind="embed",state="dead"}': ("2x60", "0x60")},
    "MessagesQuarantined": {'backscroll_jobs{kind="arrival",state="dead"}': ("1x60", "0x60")},
    "PayloadsRefused": {'backscroll_jobs{kind="payload",state="dead"}': ("1x60", "0x60")},
    # a call tries now and then, and the provider is not stopped meanwhile
    "ProviderStopped": {'backscroll_provider_stopped{provider="a:443"}': ("1 0 1 1 0 1 1x54", "0x60")},
    "ModelFails": {
        "backscroll_model_calls_total": ("0+1x60", "61+1x60"),
        "backscroll_model_failures_total": ("0+0.9x60", "54x60"),
    },
    "BudgetNearlySpent": {'backscroll_budget_spent_ratio{limit="cost"}': ("0.95x60", "0x60")},
    "ContextsDegraded": {
        "backscroll_context_seconds_count": ("0+10x60", "610+10x60"),
        "backscroll_contexts_degraded_total": ("0+5x60", "305x60"),
    },
    "DiskNearlyFull": {"backscroll_data_free_ratio": ("0.05x60", "0.5x60")},
    "DatabaseGrows": {"backscroll_database_bytes": ("4e9x1500 9e9x120", "4e9x60")},
    "DoctorFindsErrors": {'backscroll_doctor_findings{severity="error"}': ("1x60", "0x60")},
}


def test_every_rule_fires_while_it_is_bad_and_clears_when_it_is_well(tmp_path: Path) -> None:
    assert {rule["alert"] for rule in rules()} == BAD.keys()
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH: THE RULES OF ops/monitoring WERE NOT TRIED")
    tests = []
    for alert, series in BAD.items():
        firing = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
        bad = next(iter(series.values()))[0]
        end = 1500 + 120 if "1500" in bad else 60
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": " ".join(each)} for name, each in series.items()],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": f"{end}m", "exp_samples": [{"labels": "{}", "value": 1}]},
                    {"expr": firing, "eval_time": f"{end + 30}m", "exp_samples": []},
                ],
            }
        )
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(FOLDER / "alerts.yml")], "tests": tests}))
    told = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_compose_hands_every_file_of_the_folder_to_its_service(compose: dict[str, Any]) -> None:
    handed = {Path(each["file"]) for each in compose["configs"].values()}
    assert {CHECKOUT / path for path in handed} == {path for path in FOLDER.rglob("*") if path.is_file()}
    used = {each["source"] for service in compose["services"].values() for each in service.get("configs", ())}
    assert used == compose["configs"].keys()
    (target,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    assert target["targets"] == [
        f"metrics:{compose['services']['metrics']['environment']['BACKSCROLL_METRICS_PORT']}"
    ]
