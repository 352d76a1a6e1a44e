"""The examples in docstrings show what the functions return."""

import doctest
import inspect
import pkgutil
from importlib import import_module

import pytest

import ops
import pipeline
import schemas
import workers

MODULES = sorted(
    found.name
    for package in (schemas, pipeline, workers, ops)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not found.name.endswith(".__main__")
)


def test_every_example_in_a_docstring_is_true() -> None:
    tried = 0
    for name in MODULES:
        try:
            module = import_module(name)
        except ImportError as error:
            pytest.fail(f"{name} cannot be imported: {error}")
        # a task of Celery's cannot be looked at while another story's application is the current one
        if ">>>" not in inspect.getsource(module):
            continue
        failed, attempted = doctest.testmod(module)
        assert not failed, name
        tried += attempted
    assert tried > 50
