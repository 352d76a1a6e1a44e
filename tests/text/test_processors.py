"""A model's threads are no more than it has processors for, and sleep while they wait for one another."""

import os
from pathlib import Path

import pytest

from pipeline.clients import processors


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


def test_a_models_threads_sleep_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they spin: beside one busy process embedding fell to a quarter."""
    # set first, so that what is set is undone
    monkeypatch.setenv("OMP_WAIT_POLICY", "")
    monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    processors.share()
    assert os.environ["OMP_WAIT_POLICY"].lower() == "passive"
    # what an operator has set stays
    assert os.environ["OMP_NUM_THREADS"] == "3"
