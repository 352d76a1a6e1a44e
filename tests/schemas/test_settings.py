"""A wrong setting is named by the variable that the operator has set."""

import pytest

from schemas.errors import SettingsError
from schemas.load_settings import load_settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CONTEXT_SESSION_GAP_MINUTES", "-1"),
        ("BACKSCROLL_SESSION_GAP_MINUTES", "вечность"),
        ("OPENAI_BASE_URL", "foo"),
        ("VECTOR_EMBEDDING_TIMEOUT_SECONDS", "٠"),
    ],
)
def test_the_variable_that_is_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=f"^{variable}\\b"):
        load_settings()


def test_a_level_may_be_written_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_LOG_LEVEL", "WARNING")
    assert load_settings().log_level == "warning"
