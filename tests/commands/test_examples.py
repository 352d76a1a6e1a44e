"""The examples in the docstrings of the commands hold."""

import doctest

import pytest

from ops.commands import opening, rendering


@pytest.mark.parametrize("module", [opening, rendering])
def test_docstring_examples_hold(module: object) -> None:
    tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried.attempted
    assert not tried.failed
