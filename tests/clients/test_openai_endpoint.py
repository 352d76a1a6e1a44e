"""Endpoints that speak OpenAI's protocol with differences: what one refuses is learned, whatever its words."""

import json
import shutil
import ssl
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pipeline.clients.factory import make_embedder
from pipeline.clients.http_embedder import HttpEmbedder
from pipeline.clients.openai_chat import LEARNED, OpenAIChatModel
from pipeline.clients.protocols import Prompt
from schemas.errors import BackscrollError, ProviderFailed, ProviderRejected, ProviderUnavailable
from schemas.settings import Settings
from tests.providers.chat_server import ChatServer, Reply, Request

KEY = "sk-proj-Zf3kQ9vB7xW1mN5t"
TEXTS = ("Встретимся у причала", "渡船八点开", "القارب أزرق", "🛶 à huit heures")
PROMPT = Prompt(
    system="Répondez brièvement.", turns=(" ".join(TEXTS),), schema={"type": "object"}, max_tokens=70
)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    with server.running():
        yield server


def says(status: int, body: Any) -> Reply:
    return Reply(status=status, body=body if isinstance(body, bytes) else json.dumps(body).encode())


def has_form(*types: str) -> Callable[[Request], bool]:
    return lambda request: request.get("response_format", {}).get("type") in types


def has_system(request: Request) -> bool:
    return bool(request["messages"][0]["role"] == "system")


def has(name: str) -> Callable[[Request], bool]:
    return lambda request: name in request


ANY_FORM = has_form("json_schema", "json_object")
# who words it so; what it refuses, with which status and body, and what is to be learned
CHAT_REFUSALS: dict[str, tuple[Callable[[Request], bool], int, Any, str]] = {
    "Gemini": (has_system, 400, [{"error": {"message": "Developer instruction is not enabled"}}], "system"),
    "llama.cpp": (has_system, 500, {"error": {"message": "Only user and assistant roles!"}}, "system"),
    "a page": (ANY_FORM, 400, b"<h1>400</h1><p>JSON mode is not enabled</p>", "json_schema json_object"),
    "LiteLLM": (has("temperature"), 400, {"error": {"message": '{"param": "temperature"}'}}, "temperature"),
    "Azure": (has("max_tokens"), 400, {"error": {"message": "use 'max_completion_tokens'"}}, "max_tokens"),
    "a gateway, in Chinese": (has_system, 400, {"msg": "该模型不支持系统角色"}, "plain"),
    "OpenRouter": (
        ANY_FORM,
        200,
        {"error": {"message": "response_format?", "code": 400}},
        "json_schema json_object",
    ),
}


@pytest.mark.parametrize("who", CHAT_REFUSALS)
def test_what_a_chat_model_refuses_is_left_out_by_the_process(server: ChatServer, who: str) -> None:
    refuses, status, body, options = CHAT_REFUSALS[who]
    learned = options.split()
    server.answer = lambda request: says(status, body) if refuses(request) else Reply(text="Да, 好的")
    with closing(OpenAIChatModel("m", base_url=server.url)) as model, capture_logs() as logs:
        assert model.complete(PROMPT, timeout_seconds=10).text == "Да, 好的"
        tries = len(server.requests)
        assert tries <= 1 + max(len(learned), 1)
        with closing(OpenAIChatModel("m", base_url=server.url)) as another:
            assert another.complete(PROMPT, timeout_seconds=10).text == "Да, 好的"
    assert len(server.requests) == tries + 1
    logged = [each["option"] for each in logs if each["event"] == "endpoint_learned"]
    assert sorted(logged) == sorted(learned)
    assert len(LEARNED.sentences()) == len(learned)
    # nothing of the prompt is lost, wherever it stands now
    sent = server.requests[-1]
    assert all(text in str(sent["messages"]) for text in (*TEXTS, PROMPT.system))
    assert 70 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    # and another model of the endpoint is asked for everything
    with closing(OpenAIChatModel("n", base_url=server.url)) as other:
        other.complete(PROMPT, timeout_seconds=10)
    assert server.requests[tries + 1]["response_format"]["type"] == "json_schema"


def test_an_endpoint_that_refuses_everything_is_asked_a_few_times(server: ChatServer) -> None:
    words = "max_tokens response_format: the role system is unknown: maximum context length is 4096"
    server.answer = lambda _request: says(400, {"error": words})
    with closing(OpenAIChatModel("m", base_url=server.url)) as model:
        for _ in range(2):
            with pytest.raises(ProviderRejected, match=words):
                model.complete(PROMPT, timeout_seconds=10)
    assert len(server.requests) <= 8


@pytest.mark.parametrize(
    ("status", "shape"),
    [
        (400, lambda key: {"error": {"message": f"Ключ {key} не подходит", "code": 400}}),
        (200, lambda key: [{"error": f"who is {key[:12]}****?"}]),
        (500, lambda key: f"<p>key={key}</p>".encode()),
    ],
    ids=["object", "masked", "page"],
)
def test_a_key_is_in_no_error(server: ChatServer, status: int, shape: Callable[[str], Any]) -> None:
    server.answer = lambda _request: says(status, shape(KEY))
    with (
        closing(OpenAIChatModel("m", base_url=server.url, api_key=KEY)) as model,
        closing(embedder(server, openai_api_key=KEY)) as embeds,
        capture_logs() as logs,
    ):
        for call in (
            lambda: model.complete(PROMPT, timeout_seconds=10),
            lambda: embeds.embed_documents(TEXTS),
        ):
            with pytest.raises(BackscrollError) as caught:
                call()
            assert KEY[:12] not in "".join(traceback.format_exception(caught.value))
    assert KEY[:12] not in str(logs)


def embedder(server: ChatServer, **named: Any) -> HttpEmbedder:
    settings = Settings(
        _env_file=None, embedding_provider="openai", embedding_model="m", openai_base_url=server.url, **named
    )
    made = make_embedder(settings)
    assert isinstance(made, HttpEmbedder)
    return made


def vectors(request: Request, number: Callable[[int], dict[str, int]]) -> Reply:
    """Answer with vectors as numbers, the n-th text's along the n-th axis."""
    axes = range(len(request["input"]))
    data = [{"embedding": [float(axis == n) for axis in range(64)], **number(n)} for n in axes]
    return says(200, {"data": data})


@pytest.mark.parametrize(
    ("number", "learned"),
    [
        (lambda n: {"index": n} if n else {}, False),
        (lambda _n: {}, True),
        (lambda n: {"index": n + 1}, False),
    ],
    ids=["as Gemini", "none", "from one"],
)
def test_vectors_without_numbers_have_their_place_and_a_batch_is_one_request(
    server: ChatServer, number: Callable[[int], dict[str, int]], learned: bool
) -> None:
    server.answer = lambda request: vectors(request, number)
    with closing(embedder(server, embedding_batch_size=8)) as embeds:
        made = embeds.embed_documents(TEXTS * 5)
    assert [vector.index(1.0) for vector in made] == [n % 8 for n in range(20)]
    assert [len(request["input"]) for request in server.requests] == [8, 8, 4]
    assert bool(LEARNED.sentences()) == learned


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ({"error": {"message": "encoding_format: only 'float' is known"}}, "float"),
        ({"сообщение": "неизвестное поле"}, None),
    ],
)
def test_without_base64_numbers_are_asked(
    server: ChatServer, body: dict[str, Any], taken: str | None
) -> None:
    server.answer = lambda request: (
        vectors(request, lambda n: {"index": n})
        if request.get("encoding_format") == taken
        else says(400, body)
    )
    with closing(embedder(server)) as embeds:
        assert len(embeds.embed_documents(TEXTS)) == 4
        asked = len(server.requests)
        embeds.embed_query(TEXTS[0])
    assert asked <= 3
    assert len(server.requests) == asked + 1


def test_an_answer_without_end_is_not_read_whole() -> None:
    sent = 0

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal sent
            self.send_response(200)
            self.end_headers()
            try:
                while sent < 400_000_000:
                    sent += self.wfile.write(b'{"embeddings": [[' + b"0.25, " * 100_000)
            except OSError:
                pass

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Endless)) as url:
        named = {"embedding_provider": "openai", "openai_base_url": url, "embedding_model": "m"}
        with (
            closing(make_embedder(Settings(_env_file=None, **named))) as embeds,
            pytest.raises(ProviderFailed),
        ):
            embeds.embed_documents(TEXTS)
    assert sent < 100_000_000


@contextmanager
def serving(server: ThreadingHTTPServer, scheme: str = "http") -> Iterator[str]:
    """Run a server; its URL."""
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"{scheme}://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_certificate_is_verified_and_a_private_authority_is_given_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out ca.pem -days 2 -utf8 -subj /CN=Приватный"
    subprocess.run(
        [shutil.which("openssl") or "openssl", *made.split(), "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=600,
    )

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(Reply(text="да").encoded())

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    with serving(listening, "https") as url:
        for trusted, said in ((None, "certificate"), ("ca.pem", None), ("nowhere.pem", "SSL_CERT_FILE")):
            if trusted is not None:
                monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / trusted))
            refuses = pytest.raises(ProviderUnavailable, match=said) if said else nullcontext()
            with closing(OpenAIChatModel("m", base_url=url)) as model, refuses:
                assert model.complete(PROMPT, timeout_seconds=10).text == "да"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('<think>Хм… {"a": 1}</think>\n答案', "\n答案"),
        ("<THINK>ещё думаю", ""),
        ("Он сказал </think> и ушёл", "Он сказал </think> и ушёл"),
    ],
)
def test_thoughts_before_an_answer_are_no_part_of_it(server: ChatServer, text: str, left: str) -> None:
    server.answer = lambda _request: Reply(text=text)
    with closing(OpenAIChatModel("m", base_url=server.url)) as model:
        assert model.complete(PROMPT, timeout_seconds=10).text == left
