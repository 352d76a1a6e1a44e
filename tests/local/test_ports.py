"""The ports of a deployment: those that are named, and those that are not, beside another deployment's."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ops.local.embedded.server import PortTaken, free_port, is_free_port
from ops.local.launch import NEIGHBOURS, Choices, choose_ports
from schemas.settings import Settings

PORTS = ("port", "flower_port", "metrics_port")


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    """Ends with the deployments of a story."""
    with ExitStack() as cleanup:
        yield cleanup


@pytest.fixture
def said() -> list[str]:
    """What people are told."""
    return []


def chosen(cleanup: ExitStack, said: list[str], **named: object) -> list[int]:
    settings = choose_ports(Settings(_env_file=None, **named), Choices(), cleanup, said.append)  # type: ignore[arg-type]
    return [getattr(settings, name) for name in PORTS]


def test_two_deployments_that_name_no_port_start_side_by_side(cleanup: ExitStack, said: list[str]) -> None:
    # both choose before either listens
    first, second = chosen(cleanup, said), chosen(cleanup, said)
    assert len({*first, *second}) == 6
    assert said[-1].startswith(f"Ports that were not named: the HTTP API {second[0]} (")
    assert all(str(port) in said[-1] for port in second)
    # and theirs are free again when they end
    cleanup.close()
    assert all(map(is_free_port, (*first, *second)))


def test_a_port_that_is_not_named_follows_that_of_the_http_api(cleanup: ExitStack, said: list[str]) -> None:
    named = free_port()
    port, flower, metrics = chosen(cleanup, said, port=named)
    assert port == named
    assert named < flower < named + NEIGHBOURS
    assert named < metrics < named + NEIGHBOURS
    assert (
        said == [f"Ports that were not named: Flower {flower}, /metrics {metrics}"] or "is taken" in said[0]
    )


def test_a_port_that_is_named_is_left_to_what_it_is_named_for(cleanup: ExitStack, said: list[str]) -> None:
    named = free_port()
    # next to it, where Flower would be
    port, flower, metrics = chosen(cleanup, said, port=named, metrics_port=named + 1)
    assert (port, metrics) == (named, named + 1)
    assert flower > named + 1


@pytest.mark.parametrize("name", PORTS)
def test_a_named_port_that_another_program_has_is_refused_with_what_to_do(
    cleanup: ExitStack, said: list[str], name: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"Port {port} .* is taken: .*--{name.replace('_', '-')}"):
            chosen(cleanup, said, **{name: port})


def test_an_address_that_is_not_this_machines_is_not_called_taken(
    cleanup: ExitStack, said: list[str]
) -> None:
    with pytest.raises(PortTaken, match=r"on 192\.0\.2\.1 for the HTTP API cannot be used \(Cannot assign"):
        chosen(cleanup, said, host="192.0.2.1")


def test_what_is_reserved_can_be_listened_on_by_its_own_deployment(
    cleanup: ExitStack, said: list[str]
) -> None:
    for port in chosen(cleanup, said):
        socket.create_server(("127.0.0.1", port)).close()
