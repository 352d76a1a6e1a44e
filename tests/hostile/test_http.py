"""The HTTP API with the hostile tenant's key: every route that it describes, with the ids of another and with SQL."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.conftest import served
from tests.hostile.caller import THEMES, Caller, Theme, calls, routes
from tests.hostile.conftest import Stage
from tests.hostile.victims import SECRET


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[httpx.Client]:
    """With the key of the hostile tenant."""
    with served(stage.settings) as client:
        yield client


def test_no_route_tells_or_changes_what_is_another_tenant_s(stage: Stage, client: httpx.Client) -> None:
    for method, path, names in routes(client):
        for theme in THEMES:
            for answer in attacks(client, Caller(stage, theme), method, path, names):
                told = f"{method} {path} with {theme.name}: {answer.status_code}"
                assert SECRET not in answer.text, told
                # what is refused is refused with its reason, and nothing is a defect
                assert answer.status_code < 500, told + answer.text
        stage.unharmed(f"{method} {path}")


def attacks(
    client: httpx.Client, a: Caller, method: str, path: str, names: list[tuple[str, str]]
) -> Iterator[httpx.Response]:
    for called in calls(a, method, path, names):
        yield called.by(client)


def test_without_a_key_only_the_health_of_the_api_is_told(stage: Stage, client: httpx.Client) -> None:
    made = Caller(stage, Theme("without a key"))
    with httpx.Client(base_url=client.base_url, timeout=30) as stranger:
        for method, path, names in routes(client):
            answers = list(attacks(stranger, made, method, path, names))
            # a source's URL wants the platform's proof, and those of others are not told apart from none
            wanted = (
                {200} if path in {"/healthz", "/readyz"} else {401, 404} if "source_id" in path else {401}
            )
            assert {answer.status_code for answer in answers} <= wanted, path
