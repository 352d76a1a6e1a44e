"""URLs of servers as the settings name them: checked, read as their drivers read them, and shown without secrets."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

_ENCODED = (
    "with a port of at most 65535, and whatever is special in the user or the password percent-encoded: %23 for #, "
    "%40 for @, %3F for ?, %25 for %, %2F for /, %5B for ["
)
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_MAX_PORT = 65535
_SPECIAL = re.compile(r"[@\[\]\s]|%(?![0-9a-fA-F]{2})")
# what a `rediss://` URL may say, with what it says by default: kombu would verify nothing
_TLS: dict[str, str | None] = {
    "ssl_cert_reqs": "required",
    "ssl_check_hostname": "true",
    "ssl_ca_certs": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
}
_ALLOWED = {"ssl_cert_reqs": ("required", "optional", "none"), "ssl_check_hostname": ("true", "false")}
SENTINEL, SENTINEL_PORT = "sentinel://", 26379
_UNKNOWN_OPTION = re.compile(r'query parameter: "(\w+)')


Network = IPv4Network | IPv6Network


def networks_of(listed: Iterable[str]) -> list[Network]:
    """Return the addresses and networks among the items of a list.

    >>> [str(network) for network in networks_of(["hooks.example.org", "10.0.0.0/8", "::1"])]
    ['10.0.0.0/8', '::1/128']
    """
    networks: list[Network] = []
    for item in listed:
        with suppress(ValueError):
            networks.append(ip_network(item))
    return networks


def hosts_and_networks(listed: str | None) -> str | None:
    """Return a comma-separated list of hosts, addresses and networks in lower case. Raises `ValueError`."""
    for item in filter(None, map(str.strip, (listed or "").split(","))):
        if not networks_of([item]) and not _HOST.fullmatch(item):
            raise ValueError(
                f"{item[:100]!r} is no host, address or network such as hooks.example.org or 10.0.0.0/8"
            )
    return listed and listed.lower()


def is_local(url: str) -> bool:
    """Tell whether a URL names this machine.

    >>> is_local("http://127.0.0.1:11434"), is_local("http://[::1]/v1"), is_local("https://api.openai.com/v1")
    (True, True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def without_secrets(url: str) -> str:
    """Return a URL without user, password, query and fragment.

    >>> without_secrets("https://me:secret@models.example.org:8443/v1?key=secret")
    'https://models.example.org:8443/v1'
    """
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _require_server(url: str, *schemes: str) -> None:
    """Raise `ValueError` unless a URL names a host, and nothing of a login was taken for another part of it."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    rest = f"{parts.path}?{parts.query}"
    if parts.scheme not in schemes or not parts.hostname or parts.port == 0 or parts.fragment:
        raise ValueError
    if _SPECIAL.search(login) or re.search(r"[@\s]", rest) or re.search(r"\s|%(?!25)", host):
        raise ValueError


def postgres_parameters(url: str) -> dict[str, Any]:
    """Read a Postgres URL as libpq does, so that every driver and program reads the same.

    Raises `ValueError` that quotes no password.
    """
    # not for a command that only asks the HTTP API
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    scheme, separator, rest = url.partition("://")
    problem = f"must look like postgresql://user:password@host:5432/backscroll, {_ENCODED}"
    if not separator or scheme not in {"postgresql", "postgres", "postgresql+psycopg"}:
        raise ValueError(problem)
    try:
        parameters = conninfo_to_dict(f"postgresql://{rest}")
    except ProgrammingError as error:
        if unknown := _UNKNOWN_OPTION.search(str(error)):
            problem = (
                f"has the option {unknown[1]}, which Postgres' own library does not know: remove it. Allowed are "
                "libpq's, such as ?sslmode=verify-full; behind a pooler or with a schema of its own none is needed"
            )
    else:
        # libpq ends the login at the first / or @, and takes the rest of a password for hosts, ports and a database
        after_login = re.sub(r"^[^/@]*@", "", rest).partition("?")[0]
        ports = filter(None, str(parameters.get("port") or "").split(","))
        if "@" not in after_login and all(port.isdecimal() and 0 < int(port) <= _MAX_PORT for port in ports):
            return parameters
    raise ValueError(problem)


def addresses(server: Mapping[str, Any]) -> str:
    """Return the hosts and ports of libpq's parameters as in a URL.

    >>> addresses({"host": "one,::1", "port": "5432,5433"}), addresses({"host": "db,standby"}), addresses({})
    ('one:5432,[::1]:5433', 'db:5432,standby:5432', 'localhost:5432')
    """
    hosts, ports = (
        str(server.get("host") or "localhost").split(","),
        str(server.get("port") or 5432).split(","),
    )
    pairs = zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True)
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in pairs)


class Sentinels(NamedTuple):
    """The Sentinels that know where Redis is, and the URL of each with Redis' login and database, for kombu."""

    hosts: Sequence[tuple[str, int]]
    urls: Sequence[str]
    # what Redis and the Sentinels ask for
    options: Mapping[str, Any]
    master_name: str
    sentinel_options: Mapping[str, str]


def sentinels(url: str) -> Sentinels | None:
    """Read a URL of Redis behind Sentinel; None: it is another URL. Raises `ValueError` that quotes no password."""
    server, _, query = url.partition("?")
    if not server.startswith(SENTINEL):
        return None
    login, at, rest = server.removeprefix(SENTINEL).rpartition("@")
    hosts, slash, database = rest.partition("/")
    options = dict(parse_qsl(query))
    urls = [f"redis://{login}{at}{host}{slash}{database}" for host in hosts.split(",")]
    if not options.get("master_name") or options.keys() - {"master_name", "sentinel_password"}:
        raise ValueError(
            f"must look like {SENTINEL}:password@host:26379,host2:26379/0?master_name=mymaster, where "
            "sentinel_password may follow"
        )
    # not for a command that only asks the HTTP API
    from redis.connection import parse_url as read_by_redis

    read = [read_by_redis(redis_url(one)) for one in urls]  # type: ignore[no-untyped-call]
    secret = {"password": options["sentinel_password"]} if "sentinel_password" in options else {}
    return Sentinels(
        hosts=[(one["host"], one.get("port", SENTINEL_PORT)) for one in read],
        urls=[one.replace("redis://", SENTINEL) for one in urls],
        options={name: read[0][name] for name in ("username", "password", "db") if name in read[0]},
        master_name=options["master_name"],
        sentinel_options=secret,
    )


def redis_url(url: str) -> str:
    """Return a Redis URL that says how certificates are verified: by default they are.

    Raises `ValueError` that quotes no password.
    """
    # kombu takes what follows it for another server
    url = url.replace(";", "%3B")
    if sentinels(url):
        return url
    # not for a command that only asks the HTTP API
    from redis.connection import parse_url as read_by_redis

    try:
        _require_server(url, "redis", "rediss")
        read = read_by_redis(url.partition("?")[0])  # type: ignore[no-untyped-call]
    except ValueError:
        read = {}
    # redis-py passes over what is no number
    if not read or str(read.get("db", "")) != re.sub(r"^0+(?=\d)", "", urlsplit(url).path.strip("/")):
        raise ValueError(
            f"must look like redis://:password@host:6379/0, rediss:// for TLS, or {SENTINEL}, {_ENCODED}"
        ) from None
    server, _, query = url.partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    known = _TLS if server.startswith("rediss") else {}
    if unknown := sorted(parameters.keys() - known):
        names = ", ".join(known) or "none; rediss:// has some, for TLS"
        raise ValueError(f"has the option {unknown[0]}: remove it. Allowed are {names}")
    options = {name: value for name, value in (known | parameters).items() if value is not None}
    for name, value in options.items():
        # Celery's documentation writes CERT_NONE
        options[name] = value.lower().removeprefix("cert_") if name in _ALLOWED else value
        if name in _ALLOWED and options[name] not in _ALLOWED[name]:
            raise ValueError(f"has the option {name}={value}: allowed are {', '.join(_ALLOWED[name])}")
        if name not in _ALLOWED and not Path(value).is_file():
            raise ValueError(f"has the option {name}={value}, which is not a file")
    return f"{server}?{urlencode(options, quote_via=quote)}" if options else server


def http_url(url: str) -> str:
    """Return an HTTP URL that can be called. Raises `ValueError` that quotes no password."""
    try:
        _require_server(url, "http", "https")
    except ValueError:
        raise ValueError(f"must look like https://models.example.org:8443/v1, {_ENCODED}") from None
    return url
