"""The URLs of servers: what they may say, and what is told of the rest without their passwords."""

from pathlib import Path
from urllib.parse import quote

import pytest
from redis.connection import parse_url

from schemas.settings import postgres_parameters, redis_url


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://app:geheim@db/chat?prepared_statements=off", "the option prepared_statements"),
        ("postgresql+psycopg://app:geheim@db/чат?schema=память", "the option schema"),
        ("postgresql://app:geheim%zz@db/chat", "must look like postgresql://"),
    ],
)
def test_a_postgres_url_that_nothing_can_be_done_with_is_explained(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        postgres_parameters(url)
    assert "geheim" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        (
            "postgresql+psycopg://a:p%3Fq@db/x?sslmode=verify-full",
            {"password": "p?q", "sslmode": "verify-full"},
        ),
        ("postgres://a@one:1,two:2/x?target_session_attrs=read-write", {"host": "one,two", "port": "1,2"}),
        ("postgresql:///память?host=/run/postgresql", {"host": "/run/postgresql", "dbname": "память"}),
    ],
)
def test_a_postgres_url_is_read_as_its_own_programs_read_it(url: str, parameters: dict[str, str]) -> None:
    assert parameters.items() <= postgres_parameters(url).items()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://:geheim@cache/0?ssl_cert_reqs=none", "the option ssl_cert_reqs: remove it"),
        ("rediss://:geheim@cache/0?ssl_cert_reqs=maybe", "required, optional, none"),
        ("rediss://:geheim@cache/0?ssl_ca_certs=/nirgends/ca.pem", "/nirgends/ca.pem, which is not a file"),
        ("rediss://:geheim@cache/alpha", "must look like redis://"),
    ],
)
def test_a_redis_url_that_nothing_can_be_done_with_is_explained(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        redis_url(url)
    assert "geheim" not in str(raised.value)


def test_a_redis_url_says_that_certificates_are_verified_unless_it_says_otherwise(tmp_path: Path) -> None:
    authority = tmp_path / "власть & 机构.pem"
    authority.touch()

    def read(url: str) -> tuple[str, bool, str | None]:
        found = parse_url(redis_url(url))
        return found["ssl_cert_reqs"], found["ssl_check_hostname"], found.get("ssl_ca_certs")

    assert read("rediss://:p@cache:6380/1") == ("required", True, None)
    assert read("rediss://cache?ssl_cert_reqs=CERT_NONE") == ("none", True, None)
    assert read("rediss://cache?ssl_check_hostname=false") == ("required", False, None)
    assert read(f"rediss://cache?ssl_ca_certs={quote(str(authority))}") == (
        ("required", True, str(authority))
    )
    assert redis_url("redis://:p@cache/1") == "redis://:p@cache/1"
