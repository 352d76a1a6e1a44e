"""All of a tenant goes out and comes in elsewhere: the same rows, the same contexts, and nothing that was forgotten."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from pipeline.erasure import forget
from pipeline.operations import transfer
from pipeline.platforms import jsonlines
from pipeline.platforms.records import ImportOptions
from pipeline.store.connections.database import Database
from schemas.settings import Settings
from tests.api.conftest import served
from tests.commands.conftest import Run, Workers, run  # noqa: F401
from tests.conftest import SESSION_POLICY, TENANT
from tests.memories.learned import learned

COPY = "elsewhere"
GARDEN, WERFT, DIRECT, OLD = "telegram:-1001", "slack:C1", "telegram:7", "telegram:-77"
START = 1_700_000_000
TALK = {
    GARDEN: [
        ("telegram:7", "the pump in the greenhouse leaks again"),
        ("telegram:8", "remember that Ana is allergic to hazelnuts"),
        ("telegram:9", "I can bring a new seal on Friday"),
        ("telegram:7", "the seal costs 12 euros at Miller's"),
        ("telegram:8", "please remember that the key hangs behind the shed"),
    ],
    WERFT: [
        ("slack:U1", "Der Kran auf Dock 3 wird am Montag geprüft"),
        ("slack:U2", "merk dir: Frau Öztürk hat den Schlüssel für Halle 7"),
        ("slack:U1", "Die Prüfung dauert zwei Stunden, danach ist Probelauf"),
        ("slack:U2", "ok, ich sage dem Meister Bescheid"),
    ],
    DIRECT: [
        ("telegram:7", "歯医者の予約は木曜日の三時です"),
        ("telegram:7", "覚えておいて：母の誕生日は六月九日"),
        ("telegram:7", "駅前の新しいパン屋がおいしかった"),
    ],
}
QUESTIONS = {
    GARDEN: [
        "what leaks in the greenhouse?",
        "what does the seal cost?",
        "where is the key?",
        "who is allergic?",
    ],
    WERFT: [
        "Wann wird der Kran geprüft?",
        "Wer hat den Schlüssel für Halle 7?",
        "Wie lange dauert die Prüfung?",
    ],
    DIRECT: ["歯医者の予約はいつですか", "母の誕生日は？"],
}
# contexts tell the time
LATER = "2030-01-01T00:00:00Z"


@pytest.fixture
def workers(database: Database, settings: Settings) -> Workers:
    workers = Workers(database, settings)
    workers.handlers["forget"] = forget.forgetter(database, SESSION_POLICY)
    return workers


def said(chat: str, repeats: int) -> list[dict[str, Any]]:
    """The talk of a chat on several days, in a thread and in an agent's session now and then."""
    lines = TALK[chat]
    return [
        {
            "external_id": str(day * 100 + n),
            "sender_id": sender,
            "sender_name": {"7": "Ana", "8": "Björn", "9": "陈伟"}.get(sender[-1], sender),
            "content": text if day == 0 else f"{text} ({day})",
            "sent_at": START + day * 86_400 + 30 * n,
            **({"reply_to": str(day * 100 + n - 1)} if n % 3 == 2 else {}),
            **({"thread": "t1"} if day % 3 == 1 else {}),
            **({"session_key": "shift", "closes_session": n == 1} if day % 3 == 2 else {}),
            "metadata": {"client": "story", "n": n},
        }
        for day in range(repeats)
        for n, (sender, text) in enumerate(lines)
    ]


def live(client: httpx.Client, workers: Workers, repeats: int = 4) -> None:
    """What happens in a tenant's life."""

    def ok(answer: httpx.Response) -> Any:
        assert answer.status_code < 300, answer.text
        return answer.json()

    kinds = {GARDEN: "group", WERFT: "group", DIRECT: "direct"}
    for chat, kind in kinds.items():
        described = {"chat_id": chat, "kind": kind, "title": f"T {chat}", "time_zone": "Europe/Berlin"}
        for part in (said(chat, repeats)[:9], said(chat, repeats)[9:]):
            ok(client.post("/v1/messages", json={"chat": described, "messages": part}))
    for names in (["wamid.b", "wamid.d"], ["wamid.a"], ["wamid.e", "wamid.c"]):
        # of one second, some of them at once
        common = {"sender_id": "telegram:7", "content": "来ました", "sent_at": START + 99}
        some = [common | {"external_id": name} for name in names]
        ok(client.post("/v1/messages", json={"chat": DIRECT, "messages": some}))
    ok(client.post("/v1/messages", json={"chat": OLD, "messages": said(GARDEN, 1)[:2]}))
    workers.finish()
    ok(client.post(f"/v1/chats/{OLD}/rename", json={"to": GARDEN}))
    ok(
        client.put(
            f"/v1/chats/{GARDEN}/members", json={"members": ["telegram:7", "telegram:8", "telegram:5"]}
        )
    )
    ok(client.put("/v1/users/ana/senders/telegram:7", json={}))
    ok(client.put("/v1/users/ana/senders/slack:U1", json={}))
    ok(client.patch(f"/v1/messages/{GARDEN}/3", json={"content": "the seal costs 14 euros at Miller's"}))
    ok(client.patch(f"/v1/messages/{GARDEN}/99999", json={"content": "an edit before its message"}))
    ok(client.delete(f"/v1/messages/{GARDEN}/2"))
    fact = {"scope": "organization", "type": "fact", "content": "The greenhouse is 12 m long"}
    wrong = ok(client.post("/v1/memories", json=fact))["id"]
    ok(client.post(f"/v1/memories/{wrong}/correct", json={"content": "The greenhouse is 14 m long"}))
    mine = {
        "scope": "user",
        "type": "preference",
        "user_id": "telegram:7",
        "content": "Ana mag keine Haselnüsse",
    }
    ok(client.post("/v1/memories", json=mine | {"learned_in": DIRECT}))
    ok(client.post("/v1/documents", json={"document_id": "rules", "content": "Tools are cleaned. " * 300}))
    asked = ok(
        client.post("/v1/context", json={"chat_id": GARDEN, "query": "what leaks?", "user_id": "telegram:7"})
    )
    ok(
        client.post(
            f"/v1/contexts/{asked['context_id']}/answer", json={"answer": "the pump", "remember": True}
        )
    )
    workers.finish()
    ok(client.post("/v1/forget", json={"kind": "user", "sender_id": "telegram:9"}))
    ok(client.put("/v1/users/telegram:8/memory", json={"memory": False}))
    workers.finish()


def lines(database: Database, tenant: str) -> list[str]:
    """All that is exported of a tenant, without the numbers of its database."""
    numbers = {"session_id", "source_session_id", "source_message_ids", "id", "message_id", "revision"}
    numbers |= {
        "inner_revision",
        "summary_revision",
        "facts_revision",
        "exported_at",
        "tenant",
        "settling_until",
    }
    kept = []
    for line in transfer.export(database, tenant):
        line.pop("at", None)
        row = line.get("row", line)
        for name in numbers - ({"id"} if line.get("of") == "memories" else set()):
            row.pop(name, None)
        if line.get("of") == "forgotten":
            row["entries"].sort(key=str)
        if line.get("of") == "sessions":
            del row["created_at"]
        if line.get("of") == "memories":
            row["metadata"].pop("recalled", None)
        kept.append(json.dumps(line, sort_keys=True, default=str, ensure_ascii=False))
    return sorted(kept)


def differing(database: Database) -> list[str]:
    """The lines that are here and not there, or there and not here."""
    there, here = lines(database, TENANT), lines(database, COPY)
    return sorted(set(there) ^ set(here)) + ([] if len(there) == len(here) else ["one is there twice"])


def shown(client: httpx.Client) -> list[Any]:
    answers: list[Any] = []
    for chat in QUESTIONS:
        transcript = client.get(f"/v1/chats/{chat}/messages").json()["messages"]
        answers.append([message["external_id"] for message in transcript])
    for chat, questions in QUESTIONS.items():
        for question in questions:
            asked = {"chat_id": chat, "query": question, "user_id": "telegram:7", "as_of": LATER}
            answer = client.post("/v1/context", json=asked)
            assert answer.status_code == 200, answer.text
            answers.append([(block["kind"], block["text"]) for block in answer.json()["blocks"]])
    return answers


def test_a_tenant_goes_out_and_comes_in_elsewhere_with_the_same_rows_and_contexts(
    settings: Settings,
    database: Database,
    workers: Workers,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = tmp_path / "all.jsonl"
    with served(settings) as client:
        live(client, workers)
        before = shown(client)
        streamed = client.get("/v1/export")
        assert client.get("/v1/export", params={"after": "nowhere"}).status_code == 422
    exported = run("export", "tenant", path, "--json").json
    assert exported["lines"] == len(streamed.text.splitlines()) == len(path.read_text().splitlines())
    assert path.stat().st_mode & 0o077 == 0
    assert "陈伟" not in path.read_text()

    imported = run("import", path, "--tenant", COPY, "--json")
    assert imported.code == 0, imported.err
    assert imported.json["broken"] == 0, imported.json["broken_lines"]
    workers.finish()
    assert differing(database) == []
    other = settings.model_copy(update={"tenant": COPY})
    with served(other) as client:
        assert shown(client) == before
        # what was forgotten there is kept out here
        again = {"chat": GARDEN, "messages": [m for m in said(GARDEN, 1) if m["sender_id"] == "telegram:9"]}
        assert client.post("/v1/messages", json=again).json()["kept_out"] == 1
    # the same once more is known already; whose memory is off is heard there again, and not named
    twice = run("import", path, "--tenant", COPY, "--json").json
    workers.finish()
    assert (twice["new"], twice["broken"]) == (0, 0)
    assert twice["taken"]["sessions"]["new"] == 0
    (unnamed, _) = differing(database)
    assert json.loads(unnamed)["row"] == {"chat_id": GARDEN, "moderates": False, "sender_id": ""}


def test_an_export_and_an_import_that_were_interrupted_go_on(
    settings: Settings,
    database: Database,
    workers: Workers,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    path, whole = tmp_path / "all.jsonl", tmp_path / "whole.jsonl"
    with served(settings) as client:
        live(client, workers)
    assert run("export", "tenant", whole).code == 0
    raw = whole.read_bytes()
    places = [at for at, byte in enumerate(raw) if byte == 10]
    for at in (10, places[0] + 5, places[3] + 1, places[len(places) // 2] + 40, places[-4] - 3):
        path.write_bytes(raw[:at])
        # of a part only a part comes in, and that is said
        cut = run("import", path, "--tenant", COPY, "--json")
        assert cut.code != 0
        workers.finish()
        assert run("export", "tenant", path).code == 0
        there = [json.loads(line) for line in path.read_text().splitlines()]
        assert [line.get("at") for line in there] == [json.loads(line).get("at") for line in raw.splitlines()]
    assert "it is complete" in run("export", "tenant", path).out
    assert run("export", "chat", GARDEN, path).code == 2
    assert run("import", path, "--tenant", COPY).code == 0
    workers.finish()
    assert differing(database) == []


def test_who_is_forgotten_here_since_stays_out_and_a_broken_row_is_named(
    settings: Settings,
    database: Database,
    workers: Workers,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = tmp_path / "garden.jsonl"
    with served(settings) as client:
        live(client, workers)
        assert run("export", "chat", GARDEN, path).code == 0
        assert WERFT not in path.read_text()
        client.post("/v1/forget", json={"kind": "user", "sender_id": "ana"})
        workers.finish()
    assert run("import", path, "--json").code == 0
    workers.finish()
    for line in transfer.export(database, TENANT):
        assert "telegram:7" not in json.dumps(line, default=str).replace(DIRECT, ""), line

    wrong = [json.loads(line) for line in path.read_text().splitlines()]
    member = next(line for line in wrong if line.get("of") == "chat_members")
    member["row"]["moderates"] = "perhaps"
    wrong.insert(1, {"type": "row", "of": "api_keys", "row": {"scopes": ["operate"]}})
    path.write_text("\n".join(map(json.dumps, wrong)))
    done = run("import", path, "--tenant", COPY, "--json").json
    assert [line["reason"].partition(":")[0] for line in done["broken_lines"]] == [
        "rows of 'api_keys' are not known",
        "the row of chat_members is not readable",
    ]


def test_a_memory_stays_out_if_all_its_messages_were_deleted_or_their_senders_forgotten_here_since(
    settings: Settings,
    database: Database,
    workers: Workers,
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = tmp_path / "all.jsonl"
    with served(settings) as client:
        live(client, workers)
        # of others, as somebody who is forgotten later told of them
        for words, messages in (("von Vergessenen", "1"), ("auch von anderen", "12")):
            said_in = [f"{WERFT}/{number}" for number in messages]
            learned(database, words, user_id="telegram:7", learned_in=WERFT, messages=said_in)
        assert run("export", "tenant", path).code == 0
        assert client.delete(f"/v1/messages/{GARDEN}/1").status_code < 300
        assert client.post("/v1/forget", json={"kind": "user", "sender_id": "slack:U2"}).status_code == 202
    workers.finish()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    place, one = next((n, line) for n, line in enumerate(lines) if line.get("of") == "memories")
    of_both = [[GARDEN, "1"], [GARDEN, "3"]]
    for words, messages in (("一个人说的", of_both[:1]), ("两个人说的", of_both)):
        row = one["row"] | {"id": str(uuid4()), "content": words, "messages": messages}
        row["content_hash"] = "\\x" + words.encode().hex()[:32]
        lines.insert(place, {"type": "row", "of": "memories", "row": row})
    path.write_text("\n".join(map(json.dumps, lines)))
    assert run("import", path, "--json").code == 0
    kept = [
        line["row"]["content"] for line in transfer.export(database, TENANT) if line.get("of") == "memories"
    ]
    assert {"两个人说的", "auch von anderen"} <= {*kept}
    assert {"一个人说的", "von Vergessenen"}.isdisjoint(kept)


def test_rows_without_an_export_around_them_are_not_taken() -> None:
    row = {"type": "row", "of": "chat_members", "row": {"chat_id": "a:1", "sender_id": "a:2"}}
    (read,) = jsonlines.parse([json.dumps(row)], ImportOptions())
    taking = transfer._Taking(database=None, tenant_id="x", policy=None)  # type: ignore[arg-type]
    (broken,) = taking.rows("chat_members", [read])  # type: ignore[list-item]
    assert "header" in broken.reason  # type: ignore[union-attr]
