"""A model's threads are no more than it has processors for, and sleep while they wait for one another."""

import os
from pathlib import Path

import pytest

from pipeline.clients import processors

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


def test_a_models_threads_sleep_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise they spin: beside one busy process embedding fell to a quarter."""
    for name in ("OMP_WAIT_POLICY", "OMP_NUM_THREADS"):
        # set first, so that what is set is undone
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    processors.share()
    assert os.environ["OMP_WAIT_POLICY"].lower() == "passive"
    assert os.environ["OMP_NUM_THREADS"] == str(processors.available())


def test_what_the_operator_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    processors.share()
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["OMP_NUM_THREADS"]) == ("active", "3")
