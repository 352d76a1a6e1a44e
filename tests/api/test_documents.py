"""What a bot relies on when it hands over documents."""

import httpx
import redis as redis_client

from tests.api.conftest import body, problem_of
from tests.ops.running import until
from workers.queues import OF_KIND

RULES = {
    "document_id": "rules/2026",
    "content": "# Rules\n\nThe boiler is serviced every May.",
    "source": "wiki",
}


def test_a_document_is_kept_cited_read_replaced_and_removed(
    client: httpx.Client, hints: redis_client.Redis
) -> None:
    queue = OF_KIND["embed"].full_name
    hints.delete(queue)
    first = client.post("/v1/documents", json=RULES)
    assert (first.status_code, first.json()["outcome"], first.json()["chunks"]) == (201, "new", 1)
    again = client.post("/v1/documents", json=RULES)
    assert (again.status_code, again.json()["outcome"]) == (200, "unchanged")
    until(lambda: hints.llen(queue) == 1, "one hint")
    client.post("/v1/messages", json=body())
    asked = {"chat_id": "test:house", "query": "When is the boiler serviced?"}
    assert "Doc rules/2026/Chunk 0:\n  # Rules\n" in client.post("/v1/context", json=asked).json()["text"]
    newer = RULES | {"content": "The boiler is serviced every June."}
    assert client.post("/v1/documents", json=newer).json()["outcome"] == "replaced"
    read = client.get("/v1/documents/rules/2026").json()
    assert read["chunks"] == [{"chunk_index": 0, "content": newer["content"]}]
    (listed,) = client.get("/v1/documents", params={"limit": 1}).json()["documents"]
    assert (listed["document_id"], listed["source"], listed["chunks"]) == ("rules/2026", "wiki", 1)
    assert client.get("/v1/documents", params={"after": "rules/2026"}).json() == {"documents": []}
    assert client.delete("/v1/documents/rules/2026").json()["outcome"] == "removed"
    for method in ("GET", "DELETE"):
        problem_of(client.request(method, "/v1/documents/rules/2026"), 404)
    hints.delete(queue)
