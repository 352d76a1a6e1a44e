"""Large bodies mean what small ones mean, have limits, and are never in the hands of a parser in C as a whole."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import InvalidInput
from schemas.payloads import IngestPayload
from workers.api import bodies
from workers.api.bodies import FAST_DECODER, MAX_ITEMS, MAX_VALUES, PIECE_CHARS, YieldingDecoder

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def outcome(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except ValueError as error:
        return str(error)


@given(VALUES, st.sampled_from([None, 0, 1]), st.data())
def test_a_large_body_is_parsed_as_a_small_one(value: Any, indent: int | None, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    assert YieldingDecoder().decode(text) == value
    # and one that is broken off, or of which a part is missing, is refused with the same words
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    broken = text[:begin] + text[end:]
    assert outcome(YieldingDecoder(), broken) == outcome(FAST_DECODER, broken)


@pytest.mark.parametrize(
    "text", ["NaN", "[-Infinity]", "1e999", '{"a": 1, "a": 2}', '["\\ud800\\u0000"]', "[1,]", "-"]
)
def test_so_is_what_is_odd(text: str) -> None:
    assert outcome(YieldingDecoder(), text) == outcome(FAST_DECODER, text)


ITEMS = st.lists(st.sampled_from(['{"a": [1, ","]}', "1", '"],["', "[]", '"' + "x" * 300 + '"']), max_size=60)


@given(ITEMS, st.sampled_from(["", " ", "\n "]), st.sampled_from(["", ",", "]", "x"]))
@example(["1"] * 60, "", "")
def test_of_a_list_that_is_too_long_the_length_is_told(items: list[str], space: str, odd: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bodies, "MAX_ITEMS", 3)
        patched.setattr(bodies, "PIECE_CHARS", 200)
        text = f"[{f'{space},{space}'.join(items)}{odd}]"
        expected = outcome(FAST_DECODER, text)
        told = outcome(YieldingDecoder(), text)
        if isinstance(expected, str):
            assert isinstance(told, str)
        else:
            assert len(told) == len(expected)
            assert told[:3] == expected[:3]


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ("[" + ",".join(["[" + ",".join(["0"] * 5000) + "]"] * 50) + "]", str(MAX_VALUES)),
        ("{" + ",".join(f'"{number}":0' for number in range(MAX_ITEMS + 1)) + "}", str(MAX_ITEMS)),
        ('["' + "x" * (2**21 + 1) + '"]', str(2**21)),
        ("[0." + "9" * 100_000 + "]", "4000"),
        ("[" * 100_000, "nested too deeply"),
    ],
    ids=["values", "fields", "a text", "a number", "depth"],
)
def test_what_no_model_takes_is_refused_with_the_limit(body: str, limit: str) -> None:
    with pytest.raises(InvalidInput, match=limit) as refused:
        bodies.value_of(body.encode())
    assert refused.value.field == "body"


def test_no_parser_in_c_has_a_large_body_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given whoever notes what the fast decoder is given
    given_to_it = [0]

    class Noting(json.JSONDecoder):
        def decode(self, text: str, *args: Any) -> Any:
            given_to_it.append(len(text))
            return FAST_DECODER.decode(text, *args)

    monkeypatch.setattr(bodies, "FAST_DECODER", Noting())
    monkeypatch.setattr(bodies, "FAST_DECODER", Noting())
    # When bodies come that are all empty lists, or messages
    for body in (
        b"[" + b",".join([b"[]"] * 300_000) + b"]",
        json.dumps({"messages": [{"a": "x" * 999}] * 999}).encode(),
    ):
        with pytest.raises(InvalidInput):
            bodies.parse(IngestPayload, body)
    # Then it had only pieces
    assert max(given_to_it) <= PIECE_CHARS + 2
