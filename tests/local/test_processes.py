"""What the processes of a deployment find in their environment."""

import pytest

from ops.local import processes
from schemas.settings import Settings


def test_only_what_embeds_gets_the_key_of_an_embedding_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a key in the environment, whatever it lies there for
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("BACKSCROLL_OPENAI_API_KEY", "sk-secret")
    settings = Settings(_env_file=None, embedding_provider="sentence-transformers")
    # Then no process has it that does not embed by that server
    assert "sk-secret" not in processes.environment(settings).values()
    assert processes.model_key(settings) == {}
    # and those that do have it
    chosen = settings.model_copy(
        update={"embedding_provider": "openai", "openai_base_url": "http://127.0.0.1:8000/v1"}
    )
    assert "sk-secret" not in processes.environment(chosen).values()
    assert processes.model_key(chosen) == {
        "BACKSCROLL_OPENAI_API_KEY": "sk-secret",
        "BACKSCROLL_OPENAI_BASE_URL": "http://127.0.0.1:8000/v1",
    }
