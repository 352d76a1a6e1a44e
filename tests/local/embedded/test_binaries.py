"""Stories about where the servers' programs come from."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from ops.local.embedded import binaries
from ops.local.embedded.binaries import (
    ProgramMissing,
    postgres_installations,
    reachable_postgres,
    redis_server,
)
from ops.local.embedded.folder import UNUSED_NUMBERS, Account


def copy_of_installation(target: Path) -> Path:
    """A copy of the newest Postgres, laid out as in the wheel."""
    original = max(postgres_installations().items())[1]
    package = original.parent
    copied = target / package.name / original.name
    shutil.copytree(original, copied, ignore=shutil.ignore_patterns("include", "*.a"))
    shutil.copytree(package.with_name(f"{package.name}.libs"), target / f"{package.name}.libs")
    return copied


def test_what_is_not_installed_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(
        ProgramMissing, match=r"pip install 'backscroll\[embedded\]'.*BACKSCROLL_DATABASE_URL"
    ):
        postgres_installations()
    with pytest.raises(ProgramMissing, match=r"no redis-server.*BACKSCROLL_REDIS_URL"):
        redis_server()


def test_the_newest_server_is_taken_and_none_that_would_not_find_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in (("redis-server", "98.2.1"), ("valkey-server", "99.0.0")):
        (tmp_path / name).write_text(
            f"#!/bin/sh\necho '{name.split('-')[0].title()} server v={version} sha=0:0'\n"
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert redis_server() == tmp_path / "valkey-server"
    with pytest.raises(ProgramMissing, match="no redis-server 100 or newer"):
        redis_server(100)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")
def test_programs_that_the_user_cannot_reach_are_copied_to_where_it_can(
    tmp_path: Path, ordinary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = copy_of_installation(tmp_path)
    # Given a first place that belongs to somebody else, and so is not trusted
    monkeypatch.setattr(binaries, "CACHES", (ordinary_folder, ordinary_folder / "cache"))
    user = Account(UNUSED_NUMBERS[0], UNUSED_NUMBERS[0])
    copy = reachable_postgres(closed, user)
    assert copy.is_relative_to(ordinary_folder / "cache")
    made = copy.stat().st_ctime_ns
    assert reachable_postgres(closed, user) == copy
    assert copy.stat().st_ctime_ns == made

    monkeypatch.setattr(binaries, "CACHES", (ordinary_folder,))
    with pytest.raises(ProgramMissing, match="Start Backscroll as an ordinary user"):
        reachable_postgres(closed, user)
