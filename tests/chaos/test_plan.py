"""A run's faults and messages come from its seed alone, and leave no kind out."""

import pytest

from ops.chaos import plan, traffic
from ops.chaos.cast import DOOR_TENANT, PAYLOAD_TENANT


def test_the_same_seed_makes_the_same_faults_and_messages() -> None:
    assert plan.draw(30, 7) == plan.draw(30, 7) != plan.draw(30, 8)
    assert traffic.make(500, 7) == traffic.make(500, 7) != traffic.make(500, 8)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thirty_kills_hold_every_kind_of_fault(seed: int) -> None:
    kinds = [fault.kind for fault in plan.draw(30, seed)]
    assert set(kinds) == {*plan.KILLS, *plan.OTHERS}
    assert sum(kind in plan.KILLS for kind in kinds) == 30


def test_traffic_holds_every_message_once_and_some_twice_and_is_out_of_order() -> None:
    made = traffic.make(1000, 1)
    sent = [(b.tenant, b.chat, m.external_id) for b in made.batches for m in b.messages]
    assert len(made.originals) == 1000
    assert set(sent) == set(made.originals)
    assert len(sent) - 1000 == made.duplicates > 50
    assert {tenant for tenant, _, _ in sent} == {DOOR_TENANT, PAYLOAD_TENANT}
    for chat in {b.chat for b in made.batches}:
        times = [m.sent_at for b in made.batches if b.chat == chat for m in b.messages]
        assert times != sorted(times)
    assert any(m.closes_session for m in made.originals.values())
    assert any(not m.content for m in made.originals.values())
