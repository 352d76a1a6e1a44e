"""A group that becomes a supergroup while its bot goes on: the door begins it, the workers do it."""

import pytest

from tests.api.conftest import served
from tests.ops.running import until
from tests.processes.conftest import SECONDS, Deployment, talk

GROUP, SUPERGROUP = "test:group", "test:supergroup"


@pytest.mark.usefixtures("beat")
def test_a_group_is_moved_by_the_workers_and_loses_nothing(deployment: Deployment) -> None:
    deployment.send(GROUP, talk(20))
    before = deployment.wait_for(GROUP, 20)
    with served(deployment.settings) as client:
        begun = client.post(f"/v1/chats/{GROUP}/rename", json={"to": SUPERGROUP})
        assert begun.status_code == 202
        # what its bot has queued under the former id, and what it sends under the new one
        deployment.send(GROUP, talk(25))
        look = f"/v1/forget/{begun.json()['id']}"
        until(lambda: client.get(look).json()["finished_at"] is not None, "the group to be moved", SECONDS)
        assert client.get(look).json()["counts"]["messages"] == 20
    after = deployment.wait_for(SUPERGROUP, 25)
    assert after.summarized > before.summarized
    assert set(deployment.vectors_of(SUPERGROUP).values()) == {1}
    assert deployment.progress(GROUP).messages == 0
