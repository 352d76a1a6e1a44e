"""Ctrl-C waits for what must not be broken off, and whoever presses it twice does not wait."""

import signal

import pytest

from ops.console.interrupts import held_back


def test_it_waits_until_it_is_let_through() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held_back() as let_through:
        let_through()
        signal.raise_signal(signal.SIGINT)
        done.append("what was under way")
        let_through()
        done.append("what came after")
    assert done == ["what was under way"]


def test_one_that_nobody_let_through_is_not_forgotten() -> None:
    with pytest.raises(KeyboardInterrupt), held_back():
        signal.raise_signal(signal.SIGINT)


def test_the_second_does_not_wait_and_afterwards_all_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), held_back():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
