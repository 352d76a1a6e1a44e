"""Each process is given the secrets that it reads: those of `READ_SECRETS` are the ones that its program asks for."""

from typing import Any

import pytest

from ops.local.processes import READ_SECRETS, SECRETS, environment, own_environment
from pipeline.operations.status import collect_figures
from pipeline.store.connections.database import Database
from schemas.kinds import KINDS
from schemas.load_settings import load_settings
from schemas.settings import PREFIX, Settings
from workers import broker
from workers.api.app import make_web_app
from workers.app import make_app
from workers.queues import QUEUES
from workers.resources import Resources

WRITTEN = {
    **{name: f"postgresql://{name}@127.0.0.1:1/none" for name in SECRETS if "database" in name},
    "redis_url": "redis://127.0.0.1:1/0",
    "api_key": "key",
    "openai_api_key": "sk",
    "reranker_api_key": "rk",
}
# models on a server, for everything
MODELS = {
    "embedding_provider": "openai",
    "session_summary_model": "gpt",
    "memory_model": "gpt",
    "reranker_url": "http://127.0.0.1:9/rerank",
}
_read: set[str] = set()


class Recording(Settings):
    """Settings that note which secrets are read, of those that are set."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in SECRETS and value is not None:
            _read.add(name)
        return value


def run(process: str, settings: Settings) -> None:
    """Make what the process makes of its settings, as far as that needs no server."""
    if process == "api":
        make_web_app(settings)
    elif process == "metrics":
        broker.look(settings, workers=True)
        with pytest.raises(Exception, match="cannot be reached"):
            collect_figures(Database.from_settings(settings), 1)
    else:
        make_app(settings)
    if process in QUEUES:
        held = Resources(settings)
        for kind in KINDS.values():
            if kind.queue == process:
                held.handler(kind.name)
        if "embedders" in vars(held):
            # at its first job
            assert held.embedder


@pytest.mark.parametrize("process", READ_SECRETS)
def test_a_process_reads_the_secrets_that_it_is_given(process: str) -> None:
    settings = Recording(_env_file=None, **WRITTEN, **MODELS)  # type: ignore[arg-type]
    _read.clear()
    run(process, settings)
    assert _read == set(READ_SECRETS[process])


def test_a_process_finds_no_secret_of_another_even_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    lines = [f"{PREFIX}{name.upper()}={value}" for name, value in WRITTEN.items()]
    (tmp_path / ".env").write_text("\n".join([*lines, f"{PREFIX}EMBEDDING_PROVIDER=openai"]))
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert all(getattr(settings, name) for name in SECRETS)
    for process, read in READ_SECRETS.items():
        with monkeypatch.context() as patch:
            for name, value in (environment(settings) | own_environment(settings, process)).items():
                patch.setenv(name, value)
            found = load_settings()
        assert {name for name in SECRETS if getattr(found, name) is not None} == set(read), process
