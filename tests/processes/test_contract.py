"""A program in another language hands messages over as the guide describes it: by one push of JSON into Redis."""

import json
import os
import shutil
import subprocess

import pytest

from tests.conftest import CHECKOUT
from tests.guide.pages import Page
from tests.processes.conftest import Deployment
from workers.queues import ACCEPT

GUIDE = Page(CHECKOUT / "ops/guide/bots.md")
EXAMPLE = CHECKOUT / "ops/examples/payload_task.mjs"
CHAT = "telegram:-100420"


def contents(deployment: Deployment) -> dict[str, str]:
    found = deployment.query("SELECT external_id, content FROM messages WHERE chat_id = :chat", chat=CHAT)
    return {row.external_id: row.content for row in found}


def test_the_text_that_the_guide_shows_is_accepted_as_it_stands(deployment: Deployment) -> None:
    _, _, after = GUIDE.path.read_text(encoding="utf-8").partition("pushed by `LPUSH backscroll.accept`")
    text = after.split("```json\n")[1].partition("```")[0]
    deployment.redis.lpush(ACCEPT.full_name, text)
    deployment.until(lambda: contents(deployment).get("99004") == "He has come.", "the guide's message")
    # under the id that it names, in logs and on the work
    accepted = [r for r in deployment.records("accept") if r["event"] == "accepted"]
    assert accepted[-1]["request_id"] == "bot-7"


NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="NODE IS NOT INSTALLED: the example was not run")
@pytest.mark.parametrize("how", ["by itself", "by another client of Redis"])
def test_the_example_in_javascript_is_accepted(deployment: Deployment, how: str) -> None:
    with deployment.database.tenant("default") as connection:
        connection.exec_driver_sql("DELETE FROM messages WHERE external_id = '99003'")
    environment = os.environ | {"BACKSCROLL_REDIS_URL": deployment.server.url}
    options = [] if how == "by itself" else ["--print"]
    done = subprocess.run(
        [str(NODE), str(EXAMPLE), *options], env=environment, capture_output=True, timeout=60, check=True
    )
    if options:
        # byte for byte, with the line's end
        assert json.loads(done.stdout)["headers"]["task"] == "backscroll.ingest"
        deployment.redis.lpush(ACCEPT.full_name, done.stdout)
    deployment.until(lambda: "🔧" in contents(deployment).get("99003", ""), "the example's message")
