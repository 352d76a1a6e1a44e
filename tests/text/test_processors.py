"""A model's threads are no more than it has processors for, and sleep while they wait for one another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.clients import processors
from pipeline.clients.sentence_transformers import is_installed
from tests.conftest import CHECKOUT

HERE = len(os.sched_getaffinity(0))


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """Control groups as Linux shows them: ours lies in another."""
    (tmp_path / "outer" / "ours").mkdir(parents=True)
    (tmp_path / "own").write_text("1:cpu:/elsewhere\n0::/outer/ours\n")
    return tmp_path


@pytest.mark.parametrize(
    ("ours", "outer", "expected"),
    [
        ("max 100000", "max 100000", 64),
        ("200000 100000", "max 100000", 2),
        ("400000 100000", "250000 100000", 3),
        ("50000 100000", None, 1),
        (None, None, 64),
    ],
)
def test_a_model_has_as_many_threads_as_its_container_has_processors(
    groups: Path, ours: str | None, outer: str | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    for name, quota in (("outer/ours", ours), ("outer", outer)):
        if quota is not None:
            (groups / name / "cpu.max").write_text(f"{quota}\n")
    assert processors.available(groups, groups / "own") == expected


def test_without_control_groups_it_has_as_many_as_it_may_run_on(tmp_path: Path) -> None:
    assert processors.available(tmp_path, tmp_path / "none") == HERE


@pytest.mark.model
@pytest.mark.skipif(not is_installed(), reason="the extra `sentence-transformers` is not installed")
def test_however_a_process_was_started_its_models_threads_sleep_while_they_wait() -> None:
    """Otherwise they spin: beside one busy process embedding fell to a quarter."""
    # When somebody starts a process by hand and it loads its model
    program = (
        "from pipeline.clients.sentence_transformers import SentenceTransformersEmbedder as E; E().load();"
        "import torch; print(torch.get_num_threads())"
    )
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=inherited | {"OMP_DISPLAY_ENV": "TRUE"},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    # Then OpenMP says how its threads wait
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in done.stderr
    assert done.stdout.split() == [str(processors.available())]


def test_what_the_operator_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    processors.share()
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["OMP_NUM_THREADS"]) == ("active", "3")
