"""What `/metrics` shows, by the name of a sample and its labels."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from ops.local.embedded.server import free_port
from ops.local.processes import environment, metrics_command
from schemas.settings import Settings
from tests.waiting import until

Shown = dict[str, float]


def read(text: str) -> Shown:
    """The samples of an exposition: `name{label="value"}` without the prefix, and their values."""
    return {
        sample.name.removeprefix("backscroll_")
        + "".join(f' {label}="{value}"' for label, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@contextmanager
def serving(settings: Settings, folder: Path, **variables: str) -> Iterator[Callable[[], str]]:
    """The process of `/metrics`, with these variables, which reads four times a second; yields what asks it."""
    port = free_port()
    options = ("--port", str(port), "--read-seconds", "0.25", "--doctor-seconds", "1")
    with (folder / "metrics.log").open("wb") as log:
        process = subprocess.Popen(
            metrics_command(*options), env=environment(settings) | variables, stderr=log
        )

    def ask() -> str:
        return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text

    def is_up() -> bool:
        assert process.poll() is None, (folder / "metrics.log").read_text()
        try:
            return "backscroll_redis_up 1" in (told := ask()) and "backscroll_doctor_findings{" in told
        except httpx.TransportError:
            return False

    try:
        until(is_up, "the first figures")
        yield ask
    finally:
        process.terminate()
        process.wait(60)
