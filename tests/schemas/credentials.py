"""Made-up credentials, put together at run time so that no scanner finds one here, and harmless texts like them."""

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_SAID = (
    "here it is: {} – please do not lose it",
    "Hier der Schlüssel für morgen: {}",
    "la clave es {} y ya está",
    "пароль от бота вот: {} запиши",
    "これがトークンです：{} よろしく",
    "المفتاح هو {} شكرا",
    "钥匙是 {}，别告诉别人",
    "export TOKEN={}\nthen run it again",
    '{{"value": "{}"}}',
    "use `{}` in the config",
    "<{}>",
    "yeni anahtar: {}.",
    "키는 {} 입니다",
    "किताब नहीं, यह चाबी है: {}",
    "a) {}\nb) ask Ana",
    "{}",
    "„{}“ sagte der Bot",
)


def _some(rng: random.Random, length: int, letters: str = _ALNUM) -> str:
    return "".join(rng.choices(letters, k=length))


def _b64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _jwt(rng: random.Random) -> str:
    head, claims = json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps({"sub": _some(rng, 9), "iat": 17})
    return f"{_b64(head)}.{_b64(claims)}.{_some(rng, 43)}"


def _pem(rng: random.Random) -> str:
    kind = rng.choice(("RSA ", "EC ", "OPENSSH ", ""))
    body = "\n".join(_some(rng, 64, _ALNUM + "+/") for _ in range(rng.randint(3, 20)))
    edge = "-" * 5
    return f"{edge}BEGIN {kind}PRIVATE KEY{edge}\n{body}\n{edge}END {kind}PRIVATE KEY{edge}"


def check_digit(digits: str) -> str:
    """Return the last digit that makes a number right (Luhn)."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[::-2])
    return str(-(sum(doubled) + sum(map(int, digits[-2::-2]))) % 10)


def _card(rng: random.Random) -> str:
    first, length = rng.choice((("4", 16), ("5" + rng.choice("12345"), 16), ("37", 15), ("6011", 16)))
    body = first + _some(rng, length - len(first) - 1, string.digits)
    number = body + check_digit(body)
    groups = (4, 6, 5) if length == 15 else (4, 4, 4, 4)
    starts = [sum(groups[:n]) for n in range(len(groups))]
    parts = [number[start : start + size] for start, size in zip(starts, groups, strict=True)]
    return rng.choice(("", " ", "-")).join(parts)


SHAPES: dict[str, Callable[[random.Random], str]] = {
    "aws": lambda r: "AK" + "IA" + _some(r, 16, string.ascii_uppercase + "234567"),
    "github": lambda r: r.choice(("gh" + "p_", "gh" + "o_", "gh" + "s_")) + _some(r, 36),
    "gitlab": lambda r: "gl" + "pat-" + _some(r, 20),
    "slack": lambda r: (
        "xo" + "xb-" + _some(r, 12, "123456789") + "-" + _some(r, 12, "123456789") + "-" + _some(r, 24)
    ),
    "stripe": lambda r: r.choice(("sk", "rk")) + "_li" + "ve_" + _some(r, 24),
    "openai": lambda r: "sk" + "-" + r.choice(("", "proj-")) + _some(r, 20) + "T3Blbk" + "FJ" + _some(r, 20),
    "anthropic": lambda r: "sk" + "-ant-" + "api03-" + _some(r, 93) + "AA",
    "google": lambda r: "AI" + "za" + _some(r, 35),
    "telegram": lambda r: _some(r, 10, "123456789") + ":" + "AA" + _some(r, 33, _ALNUM + "-_"),
    "jwt": _jwt,
    "pem": _pem,
    "card": _card,
}


def secrets(seed: int = 54) -> Iterator[tuple[str, str, str]]:
    """Yield 204 texts as `(shape, the credential, the text around it)`."""
    rng = random.Random(seed)
    for said in _SAID:
        for shape, make in SHAPES.items():
            secret = make(rng)
            yield shape, secret, said.format(secret)


def _png(rng: random.Random) -> str:
    return "data:image/png;base64," + base64.b64encode(rng.randbytes(rng.randint(60, 3000))).decode()


HARMLESS: dict[str, Callable[[random.Random], str]] = {
    "sha1": lambda r: f"revert {_some(r, 40, _HEX)} please",
    "short sha": lambda r: f"Merge {_some(r, 7, _HEX)} into main, see #{r.randint(1, 9999)}",
    "sha256": lambda r: f"sha256:{_some(r, 64, _HEX)}",
    "md5": lambda r: f"md5 {_some(r, 32, _HEX)} stimmt",
    "uuid": lambda r: f"Vorgang {uuid.UUID(int=r.getrandbits(128))}",
    "iban": lambda r: "DE{} {} {} {} {} {}".format(
        _some(r, 2, string.digits), *(_some(r, n, string.digits) for n in (4, 4, 4, 4, 2))
    ),
    "iban in one": lambda r: "FR76" + _some(r, 23, string.digits),
    "phone": lambda r: "+{} {} {}".format(*(_some(r, n, "123456789") for n in (2, 3, 8))),
    "picture": _png,
    "order": lambda r: (
        f"Bestellung {_some(r, 3, string.digits)}-{_some(r, 7, string.digits)}-{_some(r, 7, string.digits)}"
    ),
    "order in one": lambda r: f"order no. {r.choice('01789')}{_some(r, r.choice((11, 15)), string.digits)}",
    "parcel": lambda r: "1Z" + _some(r, 16, string.ascii_uppercase + string.digits),
    "snowflake": lambda r: (
        f"<@{r.randint(10**18, 14 * 10**17)}> https://discord.com/channels/1/{r.randint(10**17, 10**18)}"
    ),
    "code": lambda r: (
        f"const token = await getToken(user{r.randint(1, 99)}); // api_key comes from the vault"
    ),
    "env": lambda r: (
        f"API_KEY=${{SECRETS_{_some(r, 4, string.ascii_uppercase)}}} DATABASE_URL=postgres://localhost/app"
    ),
    "delivered": lambda r: "{}://{}:{}@localhost:5432/app".format(
        *r.choice(
            (("postgres", "postgres", "postgres"), ("amqp", "guest", "guest"), ("mysql", "root", "root"))
        )
    ),
    "wifi": lambda r: f"das WLAN-Passwort ist Sommer{r.randint(1000, 9999)}!",
    "door": lambda r: (
        f"the code of the door is {r.randint(1000, 9999)}#, password: letmein{r.randint(10, 99)}"
    ),
    "url": lambda r: f"https://example.com/a/{_some(r, 22)}?v={_some(r, 11)}&list=PL{_some(r, 32)}",
    "time": lambda r: f"{1700000000000000 + r.randint(0, 10**14)} µs; {r.randint(10**12, 2 * 10**12)} ms",
    "imei": lambda r: (lambda body: f"IMEI {body}{check_digit(body)}")("35" + _some(r, 12, string.digits)),
    "mime": lambda r: f"cid:{_some(r, 20)}@mail.example, Message-ID <{_some(r, 30)}@mx>",
    "ssh public": lambda r: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_some(r, 43)} ana@laptop",
    "name in code": lambda r: (
        f"{r.choice(('fo1', 'mct', 'syt'))}_machine_region_of_the_{r.choice(('x', 'y'))}_selector_{r.randint(1, 99)}"
        f" sk-{'x' * 40}"
    ),
    "git": lambda r: f"index {_some(r, 7, _HEX)}..{_some(r, 7, _HEX)} 100644",
    "isbn": lambda r: f"ISBN 978-{_some(r, 1)}-{_some(r, 4, string.digits)}-{_some(r, 4, string.digits)}-0",
    "address": lambda r: f"0x{_some(r, 40, _HEX)} on Sepolia",
    "numbers": lambda r: " ".join(_some(r, 4, string.digits) for _ in range(r.randint(5, 9))),
    "key word": lambda r: (
        f"Der Schlüssel liegt unter Topf {r.randint(1, 9)}, Token gibt es an der Kasse: {_some(r, 6)}"
    ),
    "certificate": lambda r: "-----BEGIN CERTIFICATE-----\n" + _some(r, 64) + "\n-----END CERTIFICATE-----",
    "lock file": lambda r: f'"integrity": "sha512-{_some(r, 86)}=="',
}


def harmless(seed: int = 54) -> Iterator[tuple[str, str]]:
    """Yield 434 texts as `(what it is, the text)`."""
    rng = random.Random(seed)
    for _ in range(14):
        for kind, make in HARMLESS.items():
            yield kind, make(rng)
