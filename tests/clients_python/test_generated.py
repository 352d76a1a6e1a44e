"""A client generated from the description of the API, used against the API."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx

from tests.apart import packages
from tests.clients_python.conftest import BOILER, CHAT

GENERATOR = ("openapi-python-client==0.29.1", "ruamel.yaml")
# The export streams, which the generator has no word for.
LINES = {"application/x-ndjson": "application/octet-stream"}
STORY = f"""
import sys
from backscroll_generated.client import AuthenticatedClient
from backscroll_generated.api.messages import post_messages
from backscroll_generated.api.contexts import post_context, post_search
from backscroll_generated.api.overview import get_chat_messages
from backscroll_generated.models import *
import datetime
client = AuthenticatedClient(base_url=sys.argv[1], token="test-key", raise_on_unexpected_status=True)
at = datetime.datetime(2026, 4, 27, 18, 0, tzinfo=datetime.UTC)
message = MessageIn(external_id="1", sender_id="telegram:13", content={BOILER!r}, sent_at=at)
receipt = post_messages.sync(client=client, body=IngestPayload(chat={CHAT!r}, messages=[message]))
assert isinstance(receipt, MessagesReceipt), receipt
assert receipt.accepted == 1
context = post_context.sync(client=client, body=ContextQuery(chat_id={CHAT!r}, query="When does the new boiler come?"))
assert isinstance(context, Context), context
assert {BOILER!r} in context.text
found = post_search.sync(client=client, body=SearchQuery(chat_id={CHAT!r}, query="boiler"))
assert isinstance(found, SearchResult), found
assert found.hits[0].text == {BOILER!r}
listed = get_chat_messages.sync(client=client, chat_id={CHAT!r}, limit=5)
assert isinstance(listed, MessageList), listed
assert listed.messages[0].sent_at == at
unknown = post_context.sync(client=client, body=ContextQuery(chat_id="telegram:никто", query="Who?"))
assert isinstance(unknown, Problem), unknown
assert "no chat" in unknown.detail
"""


def test_a_client_generated_from_the_description_works_against_the_api(
    api: httpx.Client, tmp_path: Path
) -> None:
    described = api.get("/openapi.json").json()
    (tmp_path / "openapi.json").write_text(json.dumps(described))
    config = {"project_name_override": "generated", "package_name_override": "backscroll_generated"}
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"post_hooks": [], "content_type_overrides": LINES})
    )
    environment = os.environ | {"PYTHONPATH": str(packages(*GENERATOR))}
    made = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", "openapi.json", "--config", "config.json", "--output-path", "backscroll_generated"),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    # every route is understood, and so is every answer
    assert "WARNING" not in made.stdout + made.stderr, made.stdout + made.stderr
    subprocess.run([sys.executable, "-c", STORY, str(api.base_url).rstrip("/")], cwd=tmp_path, check=True)
