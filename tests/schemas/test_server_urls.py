"""The URLs of servers: what they may say, and what is told of the rest without their passwords."""

from pathlib import Path
from urllib.parse import quote

import pytest
from kombu.utils.url import url_to_parts
from redis.connection import parse_url

from schemas.errors import SettingsError
from schemas.load_settings import load_settings
from schemas.server_urls import http_url, postgres_parameters, redis_url, sentinels
from schemas.settings import Settings
from workers.app import make_app


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
        ("sentinel://:geheim@s1:26379,s2/0", "master_name=mymaster"),
        ("sentinel://:geheim@s1,s2/0?master_name=дом&tls=1", "master_name=mymaster"),
        ("sentinel://:geheim@s1,,s2/0?master_name=дом", "must look like redis://"),
        ("sentinel://:geheim@s1:99999,s2/0?master_name=дом", "must look like redis://"),
        ("sentinel://:ge@heim@s1,s2/0?master_name=дом", "must look like redis://"),
    ],
)
def test_a_redis_url_that_nothing_can_be_done_with_is_explained(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as raised:
        redis_url(url)
    assert "geheim" not in str(raised.value)


def test_a_url_of_sentinels_is_read_for_celery_and_for_redis_own_client() -> None:
    url = "sentinel://:p%40s%2Cs@s1:26380,s2/3?master_name=дом&sentinel_password=шифр%26"
    assert redis_url(url) == url
    read = sentinels(url)
    assert read is not None
    assert read.hosts == [("s1", 26380), ("s2", 26379)]
    assert read.urls == ["sentinel://:p%40s%2Cs@s1:26380/3", "sentinel://:p%40s%2Cs@s2/3"]
    assert (read.options, read.master_name) == ({"password": "p@s,s", "db": 3}, "дом")
    assert read.sentinel_options == {"password": "шифр&"}
    app = make_app(Settings(_env_file=None, redis_url=url))
    with app.connection_for_write() as connection:
        assert [url_to_parts(each)[1:5] for each in connection.alt] == [
            (host, port if port != 26379 else None, None, "p@s,s") for host, port in read.hosts
        ]
    # to kombu a semicolon begins another server
    assert url_to_parts(redis_url("redis://:se;cret@cache/1"))[4] == "se;cret"


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


BROKEN_LOGINS = [f"lys{sign}geheim" for sign in ("#", "[", "?", "%", "@", "/", "]", "%zz", " ")]
SETTINGS = {
    "REDIS_URL": "redis://{}@cache:6379/0",
    "OLLAMA_URL": "http://{}@models.example.org:11434",
    "OPENAI_BASE_URL": "https://{}@models.example.org/v1",
    "URL": "https://{}@memory.example.org",
}


def told(monkeypatch: pytest.MonkeyPatch, name: str, url: str) -> str:
    """What a process says that is started with this setting."""
    monkeypatch.setenv(f"BACKSCROLL_{name}", url)
    with pytest.raises(SettingsError) as raised:
        load_settings()
    return str(raised.value)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("secret", BROKEN_LOGINS)
@pytest.mark.parametrize("login", ["анна:{}", ":{}", "12:34{}"])
def test_a_password_that_breaks_a_url_is_explained_and_not_told(
    monkeypatch: pytest.MonkeyPatch, name: str, secret: str, login: str
) -> None:
    message = told(monkeypatch, name, SETTINGS[name].format(login.format(secret)))
    assert message.startswith(f"BACKSCROLL_{name}: must look like ")
    assert "percent-encoded" in message
    assert not any(part in message for part in ("lys", "geheim", "анна", "12:34"))


@pytest.mark.parametrize("secret", ["lys@geheim", "lys/geheim", "12/geheim", "lys%geheim"])
def test_a_password_that_postgres_reads_otherwise_is_explained(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    message = told(monkeypatch, "DATABASE_URL", f"postgresql://анна:{secret}@db/chat")
    assert message.startswith("BACKSCROLL_DATABASE_URL: must look like ")
    assert "percent-encoded" in message
    assert not any(part in message for part in ("lys", "geheim", "анна", "12"))


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *(("REDIS_URL", f"redis://:geheim@{host}") for host in ("cache:65536/0", ":6379/0", "/0", "cache/x")),
        *(("OLLAMA_URL", f"http://{host}") for host in ("m:70000", ":80", "", "m:x/v1", "[::1/v1", "m/v1#a")),
        ("DATABASE_URL", "postgresql://ann:geheim@db:70000/chat"),
        ("DATABASE_URL", "postgresql://ann:geheim@one:1,two:x/chat"),
    ],
)
def test_a_url_without_a_usable_host_and_port_is_explained(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str
) -> None:
    message = told(monkeypatch, name, url)
    assert message.startswith(f"BACKSCROLL_{name}: must look like ")
    assert "65535" in message
    assert "geheim" not in message


@pytest.mark.parametrize("secret", ["a#b", "[x]", "who?", "100%", "me@home", "密码/ключ", "a b"])
def test_an_encoded_password_is_what_redis_and_celery_read(secret: str) -> None:
    url = redis_url(f"redis://me:{quote(secret, safe='')}@[::1]:6380/3")
    read, by_celery = parse_url(url), url_to_parts(url)
    assert (read["password"], read["host"], read["port"], read["db"]) == (secret, "::1", 6380, 3)
    assert (by_celery.password, by_celery.hostname, by_celery.port) == (secret, "::1", 6380)
    assert http_url(f"https://{quote(secret, safe='')}:x@модель.example/v1?key=%20")
    assert postgres_parameters(f"postgresql://a:{quote(secret, safe='')}@db/x")["password"] == secret
