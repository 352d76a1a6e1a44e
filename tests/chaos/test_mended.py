"""What chaos runs have uncovered stays mended."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.clients.deterministic import DeterministicEmbedder
from pipeline.enrich import embed_texts
from schemas.errors import ProviderUnavailable
from schemas.settings import Settings
from schemas.vectors import Vector
from workers import app


@pytest.mark.parametrize("answer", [[], [[1.0]], [[0.0] * 256], [[float("nan")] * 256], [[1.0] * 256]])
def test_a_vector_that_is_none_is_refused_and_not_stored(
    monkeypatch: pytest.MonkeyPatch, answer: list[Vector]
) -> None:
    model = DeterministicEmbedder()
    monkeypatch.setattr(model, "embed_documents", lambda _texts: answer)
    with pytest.raises(ProviderUnavailable, match="deterministic"):
        embed_texts.embed_all(model, ["hello"])


def test_sweeps_go_on_when_the_clock_is_set_back_and_none_is_thrown_away_by_a_clock_that_is_ahead() -> None:
    now = datetime.now(UTC)
    entries = app.beat_schedule(Settings(_env_file=None, sweep_seconds=5))
    assert not any("expires" in entry["options"] for entry in entries.values())
    every = entries["sweep"]["schedule"]
    assert every.is_due(now + timedelta(minutes=8)).is_due
    assert every.is_due(now - timedelta(seconds=5)).is_due
    assert not every.is_due(now - timedelta(seconds=1)).is_due
