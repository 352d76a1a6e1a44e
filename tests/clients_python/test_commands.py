"""What people ask of a bot for themselves: they reach what is theirs, and nothing of anybody else's."""

import pytest
from backscroll_client import Backscroll
from backscroll_client.commands import AWAY

from ops.local.embedded.server import free_port
from pipeline.erasure import forget
from pipeline.store.connections.database import Database
from tests.clients_python.conftest import BOILER, CHAT
from tests.conftest import TENANT
from tests.harness.pipeline import forget_all

ANA, BEN, DIRECT = "telegram:11", "telegram:12", "telegram:11"
NUTS = "Ana ist allergisch gegen Nüsse 🥜"


@pytest.fixture
def house(memory: Backscroll) -> Backscroll:
    memory.add(
        {"chat_id": CHAT, "language": "english"}, {"sender_id": ANA, "sender_name": "Ana", "content": "bye"}
    )
    memory.add(CHAT, {"sender_id": BEN, "sender_name": "Ben", "content": BOILER})
    memory.add(
        CHAT, {"sender_id": BEN, "sender_name": "Ben", "content": "Ana, have you still got the ladder?"}
    )
    return memory


def test_who_was_away_is_told_what_they_missed(house: Backscroll) -> None:
    told = house.command("/missed@harbour_bot", CHAT, ANA, bot="Harbour_Bot")
    assert told is not None
    assert BOILER in told
    assert "the ladder" in told.partition("What was said:")[0]
    # and that is the same digest that the client gets
    assert house.digest(CHAT, user_id=ANA)["messages"] == 2


def test_what_is_no_command_of_this_bot_is_left_alone(house: Backscroll) -> None:
    for text in (
        "missed",
        "/missed@other_bot",
        "/start",
        "/",
        "",
        "what did I miss?",
        "/forgetme@other_bot yes",
    ):
        assert house.command(text, CHAT, ANA, bot="harbour_bot") is None, text


def test_people_see_their_own_data_where_nobody_else_does(house: Backscroll) -> None:
    assert house.command(f"/remember {NUTS}", CHAT, ANA) == "I remember it."
    assert "Say what" in str(house.command("/remember  ", CHAT, ANA))
    # in a group it says where, and tells nothing
    assert NUTS not in str(house.command("/mydata", CHAT, ANA))
    assert "direct chat" in str(house.command("/mydata", CHAT, ANA))
    # whatever they write, it is about who the platform says that they are
    assert NUTS in str(house.command("/mydata", DIRECT, ANA, direct=True))
    assert NUTS not in str(house.command(f"/mydata {ANA}", BEN, BEN, direct=True))


def test_people_are_forgotten_when_they_say_so_twice_and_nobody_else_is(
    house: Backscroll, database: Database
) -> None:
    assert "/forgetme yes" in str(house.command("/forgetme", CHAT, BEN))
    assert "/forgetme yes" in str(house.command(f"/forgetme {ANA}", CHAT, BEN))
    assert len(house.latest(CHAT)) == 3
    receipt = str(house.command("/forgetme yes", CHAT, BEN))
    assert receipt.startswith("Receipt ")
    forget_all(database)
    assert [message["content"] for message in house.latest(CHAT)] == ["bye"]
    assert forget.get(database, TENANT, int(receipt.split()[1].rstrip(":"))).finished_at is not None


def test_where_the_api_is_away_or_the_key_may_not_nothing_is_claimed() -> None:
    away = Backscroll(f"http://127.0.0.1:{free_port()}", "none", patience=0.1)
    for text in ("/missed", "/forgetme yes", "/remember me"):
        assert away.command(text, CHAT, ANA) == AWAY
