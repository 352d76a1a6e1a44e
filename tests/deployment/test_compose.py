"""compose.yaml is valid, confined, without default passwords, and names nothing that is not there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer

from ops import cli
from ops.local import processes
from ops.local.embedded.postgres import DURABLE_SETTINGS, EmbeddedPostgres
from ops.local.embedded.roles import role_name
from pipeline.store.connections.database import Database
from schemas.load_settings import OTHERS
from schemas.settings import PREFIX, Settings
from tests.deployment.conftest import CHECKOUT, VARIABLE, ours
from tests.guide.pages import Page
from tests.harness.monitoring import FOLDER, rules
from workers.api.app import make_web_app
from workers.queues import QUEUES
from workers.resources import Resources

Services = dict[str, dict[str, Any]]

# What containers read that run commands of an operator.
BY_HAND = {
    "migrate": ("database_url", "owner_database_url", "openai_api_key"),
    "ops": processes.SECRETS - {"backup_database_url"},
}
# Passwords that are in no setting.
OWN_PASSWORDS = {
    "migrate": {
        "POSTGRES_PASSWORD",
        *(f"BACKSCROLL_{role}_PASSWORD" for role in ("OWNER", "APP", "MAINTENANCE", "BACKUP")),
    },
    "flower": {"FLOWER_PASSWORD"},
}


def example() -> dict[str, str]:
    lines = (CHECKOUT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))


def test_compose_lint_finds_nothing_but_what_is_explained() -> None:
    linter = shutil.which("compose-lint", path=Path(sys.executable).parent)
    assert linter
    found = subprocess.run(
        [
            *(linter, "check", "--fail-on", "low", "--strict-config", "--no-env", "--no-merge-overrides"),
            *("--config", "tests/deployment/compose-lint.yml", "--format", "json", "compose.yaml"),
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_service_is_confined_and_bounded(compose: dict[str, Any], services: Services) -> None:
    # what is kept lies in volumes on a network without a way out
    assert compose["networks"]["data"]["internal"] is True
    for name in ("postgres", "redis"):
        assert services[name]["networks"] == ["data"]
        assert services[name]["volumes"]
    for name, service in services.items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} listens to everybody"
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert int(service["user"].partition(":")[0]) > 0, name
        limits = service["deploy"]["resources"]["limits"]
        assert limits.keys() == {"cpus", "memory", "pids"}, name
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
        # what ends by itself has none
        assert "healthcheck" in service or name in ("migrate", "ops"), name
        assert not service.get("privileged"), name


def test_there_is_no_password_in_the_file_and_none_by_default(services: Services) -> None:
    secret = re.compile("PASSWORD|API_KEY|BASIC_AUTH|(?<!^BACKSCROLL)_URL$")
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            # without a value: from .env, if it is there
            if not secret.search(variable) or value is None:
                continue
            used = list(VARIABLE.finditer(value))
            assert used, f"{name}: {variable} is written out"
            for match in used:
                assert match["operator"] == ":?", f"{name}: {match['name']} may be empty"
                assert match["rest"], "an error must say what to do"
            # what is left beside the variables holds no password
            assert not re.search(r"://[^@/]*:[^@/]+@", VARIABLE.sub("", value)), f"{name}: {variable}"


def test_what_must_be_set_is_what_the_example_lists(tmp_path: Path) -> None:
    uses = VARIABLE.finditer((CHECKOUT / "compose.yaml").read_text())
    required = {match["name"] for match in uses if match["operator"] == ":?"}
    assert required == example().keys()
    assert not any(example().values()), "an example is not a default"
    # and the commands in it fill all of it with different values
    shutil.copy(CHECKOUT / ".env.example", tmp_path)
    text = (tmp_path / ".env.example").read_text()
    commands = re.findall(r"^#   (.+)$", text, re.MULTILINE)
    subprocess.run(["/bin/bash", "-euc", "\n".join(commands)], cwd=tmp_path, check=True, timeout=600)
    filled = dict(
        line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines() if re.match(r"\w+=", line)
    )
    assert filled.keys() == example().keys()
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in filled.values())
    assert len(set(filled.values())) == len(filled)


def test_the_settings_exist(services: Services) -> None:
    known = {PREFIX + name.upper() for name in (*Settings.model_fields, *OTHERS)}
    for name, service in ours(services).items():
        given = {variable for variable in service["environment"] if variable.startswith(PREFIX)}
        assert given <= known, name
    image = re.findall(rf"^ +({PREFIX}\w+)=", (CHECKOUT / "ops/Dockerfile").read_text(), re.MULTILINE)
    assert image
    assert set(image) <= known


# Every line that .env may have: passwords, settings under all their names, and what another tool has put there.
SECRETS = {PREFIX + name.upper() for name in processes.SECRETS} | {"OPENAI_API_KEY", "ANOTHER_TOOLS_TOKEN"}


def seen(service: dict[str, Any], written: dict[str, str]) -> dict[str, str]:
    """The environment of a container, as Compose makes it of the file and `.env`; it knows no other variables."""
    assert "env_file" not in service
    given = {
        name: written.get(name) if value is None else value for name, value in service["environment"].items()
    }
    return {
        name: VARIABLE.sub(lambda match: written.get(match["name"], match["rest"]), value)
        for name, value in given.items()
        if value is not None
    }


def test_each_process_finds_the_secrets_that_it_reads_and_no_others(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = {name: f"secret-{name.lower().replace('_', '-')}-" for name in example().keys() | SECRETS}
    written["BACKSCROLL_DATABASE_READ_URL"] = "postgresql://secret-of-the-standby@standby/backscroll"
    for name, service in ours(services).items():
        found = seen(service, written)
        process = next((word for word in service["command"] if word in processes.READ_SECRETS), name)
        # as its program reads them
        with monkeypatch.context() as patch:
            for variable in [variable for variable in os.environ if variable.startswith((PREFIX, "OPENAI"))]:
                patch.delenv(variable)
            for variable, value in found.items():
                patch.setenv(variable, value)
            settings = Settings(_env_file=None)
        read = {secret for secret in processes.SECRETS if getattr(settings, secret) is not None}
        assert read == set(processes.READ_SECRETS.get(process, BY_HAND.get(process, ()))), name
        # beside them it finds nothing but passwords of its own
        told = " ".join(
            value for variable, value in found.items() if variable.removeprefix(PREFIX).lower() not in read
        )
        assert {secret for secret in written if written[secret] in told} == OWN_PASSWORDS.get(name, set()), (
            name
        )


def test_a_setting_in_the_file_of_passwords_reaches_the_containers(services: Services) -> None:
    # all but those that say where a container listens and keeps things
    own = {
        "DATA_DIR",
        "URL",
        "HOST",
        "PORT",
        "FLOWER_PORT",
        "METRICS_HOST",
        "METRICS_PORT",
        "WORKER_HEARTBEAT_FILE",
    }
    names = {
        str(alias)
        for name, field in Settings.model_fields.items()
        if name not in processes.SECRETS and name.upper() not in own
        for alias in (PREFIX + name.upper(), *getattr(field.validation_alias, "choices", ()))
    }
    for name, service in ours(services).items():
        found = seen(service, dict.fromkeys(names, "x"))
        assert {setting for setting in names if found.get(setting) == "x"} == (
            names if name != "flower" else set()
        )


def test_each_process_logs_in_as_the_role_it_needs_and_no_other(services: Services) -> None:
    app, workers = {role_name("app")}, {role_name("app"), role_name("maintenance")}
    owner, operator = {role_name("app"), role_name("owner"), "postgres"}, {*workers, role_name("owner")}
    expected = {
        "migrate": owner,
        "api": app,
        "beat": set(),
        "flower": set(),
        "ops": operator,
        "metrics": workers,
    }
    expected |= dict.fromkeys(QUEUES, workers)
    for name, service in ours(services).items():
        values = " ".join(filter(None, service["environment"].values()))
        assert set(re.findall(r"postgresql://(\w+):", values)) == expected[name], name


def test_what_runs_fits_into_the_connections_of_postgres(services: Services, settings: Settings) -> None:
    app = make_web_app(settings, processes.API_PROCESSES).state.api
    api = app.database.connections + app.keyring.database.connections
    # one worker for each queue, of which two are scaled, the metrics, and commands of an operator
    workers = (len(QUEUES) + 2) * Resources(settings).database.connections
    metrics = Database.from_settings(settings, pool_size=2, overflow=2).connections
    most = processes.API_PROCESSES * api + workers + metrics + Database.from_settings(settings).connections
    assert api == 27
    # superusers have three
    assert most <= int(DURABLE_SETTINGS["max_connections"]) - 3
    assert f"-cmax_connections={DURABLE_SETTINGS['max_connections']}" in services["postgres"]["command"]


# Settings of the embedded server that compose's has otherwise, or not at all.
DIFFERENT = {
    "cluster_name": "processes are told apart by their containers",
    "shared_buffers": "of the container's 2 GB",
    "effective_cache_size": "of the container's 2 GB",
    "maintenance_work_mem": "of the container's 2 GB",
}


def test_postgres_has_the_settings_that_were_measured_and_keep_texts_out_of_its_log(
    services: Services, postgres: EmbeddedPostgres
) -> None:
    program, *arguments = services["postgres"]["command"]
    assert program == "postgres"
    assert all(argument.startswith("-c") for argument in arguments)
    given = dict(argument.removeprefix("-c").split("=", 1) for argument in arguments)
    assert {name: value for name, value in given.items() if name not in DIFFERENT} == {
        name: value for name, value in DURABLE_SETTINGS.items() if name not in DIFFERENT
    }
    # and Postgres knows them
    with psycopg.connect(postgres.dsn("app")) as connection:
        known = connection.execute("SELECT name FROM pg_settings").fetchall()
    assert given.keys() <= {name.casefold() for (name,) in known}


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


def test_every_alert_is_silent_fires_and_clears() -> None:
    tested = (FOLDER / "alerts_test.yml").read_text()
    assert {rule["alert"] for rule in rules()} == set(re.findall(r'alertname="(\w+)"', tested))
    if promtool := shutil.which("promtool"):
        command = [promtool, "test", "rules", FOLDER / "alerts_test.yml"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert ended.returncode == 0, ended.stdout + ended.stderr
