"""A credential is masked where it is written, and hardly anything else is."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from schemas import masking
from schemas.masking import masked, masked_json
from schemas.messages import MessageIn
from schemas.payloads import ContextQuery
from tests.conftest import message
from tests.schemas import credentials


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    yield
    masking.use("mask")


def test_two_hundred_credentials_of_twelve_shapes_are_masked_and_what_is_around_them_stays() -> None:
    for shape, secret, text in credentials.secrets():
        before, after = text.split(secret)
        left = masked(text)
        assert secret not in left, shape
        assert left.startswith(f"{before}[masked: "), shape
        assert left.endswith(f"]{after}"), shape
        # again and again the same
        assert masked(left) == left


def test_of_four_hundred_harmless_texts_that_look_like_them_one_in_a_hundred_is_masked_at_most() -> None:
    texts = list(credentials.harmless())
    wrong = Counter(kind for kind, text in texts if masked(text) != text)
    assert len(texts) >= 400
    assert wrong.total() <= len(texts) / 100, wrong


def test_it_is_masked_in_a_line_of_json_and_where_it_is_name_and_password_at_once() -> None:
    for shape, secret, _ in credentials.secrets():
        assert secret not in masked(json.dumps({"log": f"started\n{secret}\tok"})), shape
    token = next(secret for shape, secret, _ in credentials.secrets() if shape == "github")
    left = masked(f"https://{token}:{token}@git.example.org")
    assert token not in left
    assert masked(left) == left


@pytest.mark.parametrize(
    "around",
    [
        *("https://x.org/?q=1%20{}", "token%3D{}%26b", "a%253D{}", "\\u003d{}", "_G_{}", "MY_API_TOKEN_{}"),
        *("https://x.org/a/{}/b", "__{}__", "--bot-{}", "ключ{}", "..{}..", "%22{}%22"),
    ],
)
def test_it_is_masked_whatever_it_is_joined_with(around: str) -> None:
    tokens = {shape: secret for shape, secret, _ in credentials.secrets() if shape not in {"pem", "card"}}
    tokens |= {"meta": "EA" + "AG" + "bC4" * 40, "google": "ya" + "29." + "aB3x" * 20}
    for shape, secret in tokens.items():
        before, after = around.split("{}")
        left = masked(around.format(secret))
        assert secret not in left, shape
        assert left.startswith(f"{before}[masked: "), shape
        # a token may end with an underscore
        assert left.rstrip("_").endswith(f"]{after}".rstrip("_")), shape


@pytest.mark.parametrize(
    "url",
    [
        *("clickhouse://app:{}@db.io:9000/x", "smtp://ana%40x.io:{}@mail.io", "jdbc:sqlserver://sa:{}@db1"),
        *("see it.mqtt://møller:{}@bücher.de", "用ldap://用户:{}@公司.cn/x", "redis://:{}@[::1]:6379/0"),
        *('{{"url": "nats:\\/\\/app:{}@10.0.0.4"}}', "?to=ftp%3A%2F%2Fana%3A{}%40files.io%2Fa"),
    ],
)
@pytest.mark.parametrize("password", ["hunter2x9", "пароль77", "Tr0u%21b&3", "pa?ss#9", "correct-horse"])
def test_a_password_in_a_url_of_any_scheme_is_masked(url: str, password: str) -> None:
    assert masked(url.format(password)) == url.format("[masked: connection string password]")


@pytest.mark.parametrize(
    "text",
    [
        *("https://user:pass@db.io/", "https://ana:x9Kq2@mail.example.com/", "http://u:xxxxxx@proxy:3128"),
        *(
            "pg://<user>:<password>@db.io",
            "pg://${USER}:${PASS}@db.io",
            "pg://{{u}}:{{p}}@db.io",
            "pg://u:%s@db",
        ),
        *(
            "http://host:8080/path@v2",
            "http://host:80?to=a@b.io",
            "https://a.io/@ana:x@y",
            "git@a.io:b/c.git",
        ),
        *("to=http%3A%2F%2Fhost%3A8080%2Fpath%40v2", "gh" + "p_" + "x" * 36, "hf" + "_" + "abcdefghij" * 4),
        *("Bearer authentication_is_required_for_this", "gl" + "pat-" + "0" * 20, "AI" + "za" + "X" * 35),
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    ],
)
def test_a_placeholder_or_an_address_without_a_password_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("gap", [*"- \u2011\u00a0\u202f", ""])
@pytest.mark.parametrize("after", ["", " 12/27", " 04/2029", ", 05/29, 887", " 2028-04"])
def test_a_card_is_masked_however_it_is_written_and_with_its_expiry_date(gap: str, after: str) -> None:
    digits = "411111111111111" + credentials.check_digit("411111111111111")
    card = gap.join(digits[at : at + 4] for at in range(0, 16, 4))
    assert masked(f"Karte {card}{after}") == f"Karte [masked: card number]{after}"
    # a longer number is none
    assert masked(f"Karte {card}{gap}1234") == f"Karte {card}{gap}1234"


def test_the_mask_says_what_was_there() -> None:
    card = "4111 1111 1111 111" + credentials.check_digit("411111111111111")
    assert masked(f"Karte {card} bitte") == "Karte [masked: card number] bitte"
    # not with another last digit, nor inside a longer number
    assert masked(card[:-1] + "2") == card[:-1] + "2"
    assert masked(f"DE89 {card} 00") == f"DE89 {card} 00"


def test_what_bots_are_given_is_masked_too() -> None:
    long = "aB3_" * 20
    for kind, secret in (
        ("backscroll key", "bk" + "s_" + long[:43]),
        ("discord token", "MT" + f"{long[:24]}.G{long[:5]}.{long[:38]}"),
        ("webhook", "hooks.sl" + f"ack.com/services/T01/B02/{long[:40]}"),
        ("webhook", "discord.com/api/web" + f"hooks/123456789/{long[:68]}"),
        ("webhook", "hooks.zap" + "ier.com/hooks/catch/12345678/a1b2c3d"),
        ("meta token", "EA" + "AG" + "bC4" * 40),
        ("google token", "ya" + "29." + long),
        ("api key", "s" + "k-" + "0a1b2c3d" * 4),
        ("access token", "fi" + "gd_" + long[:40]),
        ("secret key", "AGE-SEC" + "RET-KEY-1" + "Q2" * 29),
    ):
        assert masked(f"il token è {secret} grazie") == f"il token è [masked: {kind}] grazie"
    # nor is a picture in which one seems to begin
    for before in "+/":
        picture = f"data:image/png;base64,{'iVBORw0KGgo' * 6}{before}" + "EA" + "AG" + "bC4" * 40
        assert masked(picture) == picture
    # a file's name is none, nor a long name in code
    assert masked("syt_of_the_longest_function_name_of_all") == "syt_of_the_longest_function_name_of_all"
    assert masked(f"Mietvertrag_der_Werkstatt.v2026b.{long[:20]}").endswith(long[:20])


def test_names_metadata_and_questions_are_masked_at_the_door_and_kept_on_request() -> None:
    shapes = {shape: (secret, text) for shape, secret, text in credentials.secrets()}
    secret, text = shapes["github"]
    arguments = {"tool_calls": [{"arguments": f'{{"token": "{secret}"}}', text: 1}], "n": 7}
    for keep in (False, True):
        masking.use("keep" if keep else "mask")
        said = message(1, text, sender_name=f"Ana {secret}", metadata=arguments)
        asked = ContextQuery(chat_id="test:1", query=text, queries=[text])
        assert (secret in said.model_dump_json()) is keep
        assert (secret in asked.model_dump_json()) is keep
    # an id stays what it is, so that the same message is known again
    assert MessageIn.model_validate(said.model_dump() | {"external_id": secret}).external_id == secret


def test_of_a_private_key_in_two_messages_neither_half_is_kept() -> None:
    key = next(secret for shape, secret, _ in credentials.secrets() if shape == "pem")
    first, second = f"erste Hälfte: {key[:200]}", f"{key[200:]}\nund danke"
    assert masked(first) == "erste Hälfte: [masked: private key]"
    assert masked(second) == "[masked: private key]\nund danke"
    # nor is what is said of one
    assert (
        masked(f"it begins with {key.splitlines()[0]}, ok?") == f"it begins with {key.splitlines()[0]}, ok?"
    )


@pytest.mark.parametrize(
    "quoted", ["{}\n", "> {}\n", "    {}\n", "- {}\n", "{}\\n", "# {}\r\n", '"{}\\n" +\n']
)
@pytest.mark.parametrize(
    "headers", [[], ["Proc-Type: 4,ENCRYPTED", ""], ["Version: 2", "Comment: of Ana", ""]]
)
def test_half_a_private_key_is_masked_whatever_quotes_it(quoted: str, headers: list[str]) -> None:
    key = next(secret for shape, secret, _ in credentials.secrets() if shape == "pem").splitlines()
    for half in ([key[0], *headers, *key[1:-1]], [*key[1:]]):
        left = masked("so:\n" + "".join(map(quoted.format, half)) + "danke!")
        assert left.startswith("so:\n")
        assert left.endswith("danke!")
        assert "[masked: private key]" in left
        assert not any(line in left for line in key[1:-1])


@pytest.mark.parametrize(
    "word",
    [
        *(
            "ey" + "J",
            "op" + "s_ey" + "J",
            "ey" + "J-",
            "token=A: ",
            "a://b:{",
            "a://%3A",
            "x://u:p@",
            "_",
            "fi" + "gd_",
        ),
        *(
            "....x",
            "-----BEGIN PRIVATE KEY-----\nA: ",
            "-----END PRIVATE KEY-----",
            "A" * 16,
            "4111 ",
            "%25",
            "a_b-",
        ),
    ],
)
def test_a_text_that_looks_like_thousands_of_tokens_takes_no_time(word: str) -> None:
    token = next(secret for shape, secret, _ in credentials.secrets() if shape == "jwt")
    text = (word * 200_000)[:200_000]
    before = time.process_time()
    assert token not in masked(f"{text} {token}")
    # some took half a minute
    assert time.process_time() - before < 2


def test_json_is_masked_however_deep_and_refused_by_name_if_too_deep_for_metadata() -> None:
    secret = next(secret for shape, secret, _ in credentials.secrets() if shape == "github")
    deep: Any = secret
    for _ in range(3_000):
        deep = [deep]
    left = masked_json(deep)
    for _ in range(3_000):
        (left,) = left
    assert left.startswith("[masked: github")
    with pytest.raises(ValidationError, match=r"metadata\n.*is nested deeper than 8 levels"):
        message(1, "hello", metadata={"a": deep})


def test_the_edge_of_a_private_key_costs_no_more_however_often_it_is_named() -> None:
    # as long as a document may be
    text = "-----BEGIN " + "PRIVATE KEY " * 50_000
    before = time.process_time()
    assert masked(text) == text
    assert time.process_time() - before < 2


def test_a_key_may_tell_what_its_value_is() -> None:
    value = "wJalrXUtnFEMI" + "K7MDENGbPxRfiCYzQ4v" + "Lw83jRt1"
    left = masked_json({"aws_secret_access_key": value, "note": value})
    assert left["aws_secret_access_key"].startswith("[masked: aws secret access key")
    assert left["note"] == value
    of_long_names = masked_json(
        {"x" * 100_000 + "_aws_secret_access_key": [value] * 100, "y" * 100_000: [value] * 100}
    )
    assert all(value not in texts for name, texts in of_long_names.items() if name.endswith("key"))


@pytest.mark.parametrize("begins", ["DefaultEndpointsProtocol=https;AccountKey=", "pcsk_", "jina_"])
def test_a_key_that_is_told_by_how_it_begins_is_masked_whole(begins: str) -> None:
    key = "q7/Z+" * 17 + "A==" if begins.endswith("=") else "q7Zx9" * 12
    left = masked(f"{begins}{key};next=1")
    assert left.endswith("];next=1")
    assert "q7" not in left
