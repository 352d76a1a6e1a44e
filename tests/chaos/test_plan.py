"""A run's faults and messages come from its seed alone, and leave no kind out."""

import pytest

from ops.dev.chaos import faults, traffic
from ops.dev.deployment import API_TENANT, PAYLOAD_TENANT


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thirty_kills_hold_every_kind_of_fault_but_those_that_cannot_be_made(seed: int) -> None:
    every = {*faults.KILLS, *faults.OTHERS}
    for without in ([], ["disk-full"]):
        kinds = [fault.kind for fault in faults.draw(30, seed, without)]
        assert every - set(kinds) == set(without)
        assert (len(kinds), sum(kind in faults.KILLS for kind in kinds)) == (45, 30)


def test_traffic_holds_every_message_once_and_some_twice_and_is_out_of_order() -> None:
    made = traffic.make_traffic(1000, 1)
    batches = [sending for sending in made.sendings if sending.method == "POST"]
    sent = [key for batch in batches for key in batch.keys]
    assert len(made.originals) == 1000
    assert set(sent) == set(made.originals)
    assert len(sent) - 1000 == made.duplicates > 50
    assert {tenant for tenant, _, _ in sent} == {API_TENANT, PAYLOAD_TENANT}
    for chat in {b.chat for b in batches}:
        times = [m.sent_at for b in batches if b.chat == chat for m in b.messages]
        assert times != sorted(times)
    assert any(m.closes_session for m in made.originals.values())
    assert any(not m.content for m in made.originals.values())


def test_some_messages_are_edited_and_some_deleted_before_they_come_or_after() -> None:
    made = traffic.make_traffic(2000, 1)
    first_seen: dict[traffic.Key, int] = {}
    changes: dict[traffic.Key, tuple[int, traffic.Sending]] = {}
    for place, sending in enumerate(made.sendings):
        for key in sending.keys:
            if sending.method == "POST":
                first_seen.setdefault(key, place)
            else:
                changes[key] = (place, sending)
    places = [place - first_seen[key] for key, (place, _) in changes.items()]
    assert min(places) < 0 < max(places)
    edited = {key: change for key, (_, change) in changes.items() if change.method == "PATCH"}
    assert len(edited) > 15
    assert all([made.originals[key]] == change.messages for key, change in edited.items())
    deleted = changes.keys() - edited.keys()
    assert len(deleted) > 5
    assert deleted < set(made.gone)
