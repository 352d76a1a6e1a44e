"""Batches of every size in scripts that are not Latin, over HTTP and as tasks, and `/healthz` meanwhile.

In a deployment of its own, with the shipped HTTP API and the shipped worker that accepts payload tasks.
"""

import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from ops.dev import scripts
from ops.dev.bench import senders
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import API_TENANT, PAYLOAD_TENANT, Deployment
from ops.dev.figures import Figure
from ops.dev.observe import Say, count

SCRIPTS = ("cyrillic", "chinese", "emoji")
SIZES = (200_000, 1_000_000, 8_000_000)
AT_ONCE = (1, 16)
MESSAGES = 150
LEAD_SECONDS = 1.0
BYTES_PER_SECOND = 20e6
"""By which batches are handed to the clients."""
PATIENCE_SECONDS, LEAST_BYTES_PER_SECOND = 60.0, 0.2e6
"""How long all that is sent at once may take to be stored, and by its size."""
VISIBILITY_SECONDS = 600
"""As in production: what takes longer comes back to its queue, and is done again."""
HEALTH_PAUSE, HEALTH_MS = 0.01, 100.0
_STORED = "SELECT count(*) FROM messages WHERE tenant_id = %s AND chat_id = ANY(%s)"


def measure(say: Say) -> list[Figure]:
    """Send all of them, in a few minutes. To be called by the main thread."""
    say("starting Postgres, Redis, the HTTP API and a worker")
    with (
        deployments.running(only=("api", "accept"), visibility_seconds=VISIBILITY_SECONDS) as deployment,
        senders.clients(max(AT_ONCE)) as clients,
    ):
        cases = itertools.product((API_TENANT, PAYLOAD_TENANT), SCRIPTS, SIZES, AT_ONCE)
        return [figure for case in cases for figure in _sent(deployment, clients, *case, say)]


def _sent(
    deployment: Deployment,
    clients: ProcessPoolExecutor,
    tenant: str,
    script: str,
    size: int,
    at_once: int,
    say: Say,
) -> Iterator[Figure]:
    """Send batches at once, one of a client, each to a chat of its own, and wait until all are stored."""
    named = f"{'tasks' if tenant == PAYLOAD_TENANT else 'HTTP'}, {script}, {at_once} × {size / 1e6:g} MB"
    say(named)
    messages = scripts.batch(script, size, MESSAGES)
    chats = [f"bench:{script}-{size}-{at_once}-{number}" for number in range(at_once)]
    payloads = [{"v": 1, "chat": chat, "messages": messages} for chat in chats]
    # late enough for what is sent to be with the clients
    at = time.time() + LEAD_SECONDS + at_once * size / BYTES_PER_SECOND
    until = at + PATIENCE_SECONDS + at_once * size / LEAST_BYTES_PER_SECOND
    if tenant == API_TENANT:
        bodies = [json.dumps(payload, ensure_ascii=False) for payload in payloads]
        to = (deployment.port, deployment.key)
        sending = [
            clients.submit(senders.send_all, *to, [("POST", "/v1/messages", body)], at) for body in bodies
        ]
    else:
        tasks = [payload | {"tenant": tenant} for payload in payloads]
        sending = [clients.submit(senders.queue_all, deployment.redis.url, [task], at) for task in tasks]
    with deployment.connect() as connection:

        def stored() -> int:
            return count(connection, _STORED, [tenant, chats])

        def goes_on() -> bool:
            everything = all(future.done() for future in sending) and stored() == at_once * MESSAGES
            return not everything and time.time() < until

        health = senders.ask_health(deployment.port, at, HEALTH_PAUSE, goes_on)
        took, accepted = time.time() - at, stored()
    for future in sending:
        future.result()
    yield Figure(f"{named}, messages accepted", accepted, least=at_once * MESSAGES)
    yield Figure(f"{named}, all accepted after", took, "s")
    yield Figure(f"{named}, slowest /healthz", 1000 * max(health, default=0.0), "ms", most=HEALTH_MS)
