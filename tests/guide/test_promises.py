"""The strongest sentences of README and guide: each stands there, and the story that proves it stands in the tests."""

import re

import pytest

from tests.conftest import CHECKOUT
from tests.guide.pages import README, Page, page

PROMISES = [
    (
        "README",
        "Accepted means committed.",
        "api/test_messages.py::test_an_accepted_message_is_found_by_keyword",
    ),
    (
        "README",
        "You can lose Redis entirely",
        "chaos/test_run.py::test_nothing_accepted_is_lost_doubled_or_stuck",
    ),
    (
        "README",
        "A worker may die at any time.",
        "processes/test_dead_workers.py::test_jobs_of_a_killed_worker",
    ),
    ("README", "Nothing is stored twice", "events/test_payloads.py::test_shuffled_payloads_are_stored_once"),
    (
        "README",
        "the order of arrival does not matter",
        "ingest/test_sessions_stored.py::test_any_order_of_arrival",
    ),
    ("README", "Chats are isolated.", "recall/test_search.py::test_no_search_leaves_its_tenant_or_its_chat"),
    (
        "README",
        "Delete the messages behind a memory",
        "memories/test_learning.py::test_what_a_message_taught_goes_with",
    ),
    (
        "README",
        "Nothing is learned from the bot's own",
        "enrich/test_kept_on_request.py::test_neither_a_bot_nor",
    ),
    (
        "README",
        "What was forgotten does not come back.",
        "people/test_consent.py::test_a_memory_of_what_was_forgotten",
    ),
    (
        "README",
        "Nothing leaves the machine",
        "operations/test_deployment.py::test_what_any_process_sends_is_sent",
    ),
    (
        "people-and-privacy",
        "A memory learned in one chat is shown in another only if everyone",
        "people/test_visibility.py::test_nobody_sees",
    ),
    (
        "people-and-privacy",
        "Nothing learned in a direct chat",
        "people/test_visibility.py::test_nothing_of_a_direct_chat",
    ),
    (
        "people-and-privacy",
        "supersedes nothing that others see",
        "recall/choose/test_memories_shown.py::test_what_is_said_in_private",
    ),
    (
        "people-and-privacy",
        "Everything derived goes",
        "erasure/test_forget.py::test_nothing_of_a_forgotten_user_stands_in_any_column",
    ),
    (
        "people-and-privacy",
        "Logs, Flower and metrics never hold what people wrote.",
        "processes/test_bots.py::test_neither_logs_nor",
    ),
    (
        "people-and-privacy",
        "read what people wrote",
        "hostile/test_scopes.py::test_whoever_serves_all_tenants_reads_nothing",
    ),
    (
        "people-and-privacy",
        "list, forget, see another tenant",
        "hostile/test_http.py::test_no_route_tells_or_changes",
    ),
    (
        "operating",
        "Restoring reapplies later deletions and key revocations",
        "ops/test_backup.py::test_what_was_forgotten_after",
    ),
    (
        "operating",
        "refused everywhere within 5 s",
        "api/test_keyring.py::test_a_key_that_is_revoked_is_refused_within",
    ),
    (
        "bots",
        "a deleted message stays deleted",
        "people/test_consent.py::test_a_deleted_message_never_comes_again",
    ),
    (
        "bots",
        "whose proof is checked",
        "events/test_sources.py::test_only_what_the_platform_signed_is_stored",
    ),
    (
        "bots",
        "keeps what was handed over in a file",
        "clients_python/test_buffer_property.py::test_all_is_there_once",
    ),
]


@pytest.mark.parametrize(("where", "sentence", "story"), PROMISES, ids=[each[1] for each in PROMISES])
def test_a_promise_has_its_story(where: str, sentence: str, story: str) -> None:
    told: Page = README if where == "README" else page(where)
    assert sentence in " ".join(told.text.split())
    path, _, name = story.partition("::")
    assert re.search(
        rf"^def {name}\w*\(", (CHECKOUT / "tests" / path).read_text(encoding="utf-8"), re.MULTILINE
    )
