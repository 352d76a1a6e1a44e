"""OpenAI's SDK between this program and an endpoint: what it adds is known, and nothing is without bounds."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from email.message import Message

import pytest

from pipeline.clients.factory import make_embedder
from pipeline.clients.openai_chat import OpenAIChatModel
from pipeline.clients.protocols import Prompt
from pipeline.llm.gateway import Gateway, ModelCall
from pipeline.store.connections.database import Database
from schemas.errors import ProviderFailed, ProviderUnavailable, SettingsError
from schemas.settings import Settings
from tests.conftest import TENANT
from tests.harness.pipeline import rows
from tests.providers.chat_server import ChatServer, Reply
from tests.providers.http_server import Answered, serving
from tests.waiting import SECONDS

PROMPT = Prompt(system="Be brief.", turns=("¿Qué tal?",))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    with server.running():
        yield server


def test_a_process_that_calls_no_model_does_not_import_the_sdk() -> None:
    made = (
        "import sys, workers.resources, workers.tasks; from schemas.settings import Settings; "
        "from pipeline.clients import factory; "
        "s = Settings(_env_file=None, openai_base_url='http://127.0.0.1:9/v1', embedding_provider='ollama'); "
        "factory.make_embedder(s); factory.make_chat_model(s, 'm', setting='HYDE_MODEL'); "
        "print({'openai', 'httpx2'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", made], check=True, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.stdout.strip() == "set()"


def test_the_ledger_has_a_providers_own_count_and_its_id_of_each_request(
    database: Database, server: ChatServer
) -> None:
    ids = iter(("req_one", "req_two"))
    server.answer = lambda request: Reply(
        text="bien", status=200 if "tal" in str(request) else 503, headers={"X-Request-Id": next(ids)}
    )
    call = ModelCall(tenant_id=TENANT, chat_id="test:chat", purpose="hyde")
    with closing(OpenAIChatModel("m", base_url=server.url)) as model:
        gateway = Gateway(database, model)
        gateway.complete(call, PROMPT, timeout_seconds=60)
        with pytest.raises(ProviderUnavailable):
            gateway.complete(call, Prompt(system="Be brief.", turns=("?",)), timeout_seconds=60)
    kept = rows(database, "SELECT request_id, outcome, input_tokens FROM llm_calls ORDER BY id")
    assert kept == [("req_one", "answered", 100), ("req_two", "unavailable", 0)]


@pytest.mark.parametrize(("key", "said"), [("sk-mine", "Bearer sk-mine"), (None, "Bearer none")])
def test_nothing_of_the_environment_is_sent_but_the_key_that_the_settings_name(
    monkeypatch: pytest.MonkeyPatch, key: str | None, said: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-something-else")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-something-else")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-of-something-else")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "X-Else: of-something-else\nAuthorization: Bearer of-something-else"
    )
    sent: list[str] = []

    def answer(_method: str, _path: str, headers: Message, _body: bytes) -> Answered:
        sent.append(str(headers))
        return 200, {}, Reply(text="bien").encoded()

    with serving(answer) as url, closing(OpenAIChatModel("m", base_url=url, api_key=key)) as model:
        model.complete(PROMPT, timeout_seconds=60)
    assert said in sent[0]
    assert "something-else" not in sent[0]


@pytest.mark.parametrize("status", [200, 500])
def test_what_is_small_only_while_compressed_is_not_read_whole(status: int) -> None:
    bomb = gzip.compress(bytes(200 * 1024**2), compresslevel=1)

    def answer(*_: object) -> Answered:
        return status, {"Content-Encoding": "gzip", "Content-Type": "application/json"}, bomb

    error = ProviderFailed if status == 200 else ProviderUnavailable
    with (
        serving(answer) as url,
        closing(OpenAIChatModel("m", base_url=url)) as model,
        pytest.raises(error) as raised,
    ):
        model.complete(PROMPT, timeout_seconds=120)
    assert len(str(raised.value)) < 1000


def test_an_ollama_is_asked_by_the_same_protocol_with_the_login_of_its_url() -> None:
    asked: list[tuple[str, str | None, dict[str, object]]] = []

    def answer(_method: str, path: str, headers: Message, body: bytes) -> Answered:
        asked.append((path, headers["Authorization"], json.loads(body)))
        return 200, {}, json.dumps({"data": [{"embedding": [3.0, 4.0], "index": 0}]}).encode()

    with serving(answer) as url:
        settings = Settings(
            _env_file=None,
            embedding_provider="ollama",
            ollama_url=url.replace("//", "//me:secret@"),
            embedding_model="m",
        )
        with closing(make_embedder(settings)) as embeds:
            assert embeds.embed_query("hola") == pytest.approx([0.6, 0.8])
    assert asked == [("/v1/embeddings", "Basic bWU6c2VjcmV0", {"model": "m", "input": ["hola"]})]


def test_a_server_is_not_waited_for_longer_than_a_lease() -> None:
    with pytest.raises(SettingsError, match="EMBEDDING_TIMEOUT_SECONDS"):
        make_embedder(Settings(_env_file=None, embedding_provider="ollama", lease_seconds=10))
