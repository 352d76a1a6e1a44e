"""A language model is asked only where a setting names one, and only by those who need it."""

from pathlib import Path

import pytest

from ops.local import processes
from pipeline.clients.factory import make_summary_model, sent_elsewhere
from schemas.load_settings import load_settings
from schemas.settings import Settings
from workers import queues

OURS = {"redis_url": "redis://127.0.0.1:1", "data_dir": "/tmp/nowhere"}  # noqa: S108 - nothing is written


def settings_of(**given: object) -> Settings:
    return Settings(_env_file=None, **(OURS | given))


def test_a_key_alone_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-something-else")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example.org/v1")
    settings = settings_of()
    assert settings.openai_api_key is not None
    assert make_summary_model(settings) is None
    assert sent_elsewhere(settings) == []
    assert queues.batch_of("summarize", settings) == queues.SUMMARIZE.batch


def test_what_is_sent_where_is_said_in_a_sentence() -> None:
    named = {"session_summary_model": "gpt-4.1-mini", "openai_api_key": "k"}
    summaries, facts = sent_elsewhere(settings_of(**named))
    for sentence in (summaries, facts):
        assert "api.openai.com:443" in sentence
    (sentence,) = sent_elsewhere(settings_of(**named, memory_model="rules-v1"))
    assert sentence == summaries
    assert sent_elsewhere(settings_of(memory_model="gpt-4.1-mini", openai_api_key="k")) == [facts]
    assert sent_elsewhere(settings_of(**named, memory_learning_enabled=False)) == [summaries]
    for url in ("http://127.0.0.1:11434/v1", "http://[::1]:1/v1"):
        assert sent_elsewhere(settings_of(**named, openai_base_url=url)) == []
    (sentence,) = sent_elsewhere(settings_of(digest_hosts="hooks.example.org, 127.0.0.1, 10.0.0.0/8"))
    assert "Digests of chats are sent to hooks.example.org," in sentence
    # one session at a time: each may take its lease
    assert queues.batch_of("summarize", settings_of(**named)) == 1


def test_the_endpoint_is_for_those_who_ask_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a key in the environment, and one in a file that every process reads
    (tmp_path / ".env").write_text(
        "BACKSCROLL_OPENAI_API_KEY=in-the-file\nOPENAI_BASE_URL=http://127.0.0.1:1/v1\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "in-the-environment")
    settings = load_settings()
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == "in-the-file"
    # Then a process has it if it is given
    for_all, for_workers = processes.environment(settings), processes.own_environment(settings, "summarize")
    asks = settings.model_copy(update={"embedding_provider": "openai"})
    for given, process, has in ((asks, "api", True), (settings, "api", False), (asks, "ingest", False)):
        own = for_all | processes.own_environment(given, process)
        assert ("in-the-file" in own.values()) == has, process
    assert "in-the" not in "".join(for_all.values())
    with monkeypatch.context() as patch:
        patch.delenv("OPENAI_API_KEY")
        for name, value in for_all.items():
            patch.setenv(name, value)
        assert load_settings().openai_api_key is None
        for name, value in for_workers.items():
            patch.setenv(name, value)
        assert load_settings().openai_api_key == settings.openai_api_key
