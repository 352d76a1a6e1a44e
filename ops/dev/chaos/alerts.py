"""Provoke each alert of `ops/monitoring`, and see a real Prometheus fire it, and clear it after the remedy.

What nobody waits for is written into the database (a job due for hours, a budget spent); `for:` and ranges are
shortened.
"""

import contextlib
import json
import re
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

from ops.client import Api
from ops.dev.chaos import traffic
from ops.dev.chaos.faults import Fault, Faults
from ops.dev.deployed import deployment, providers
from ops.dev.deployed import deployment as deployments
from ops.dev.deployed.deployment import API_TENANT, DeployedProcess, Deployment
from ops.dev.figures import Outcome, Say, count_rows, wait
from ops.local import processes
from ops.local.embedded.server import free_port
from pipeline.ingest import accept
from pipeline.store.connections.database import Database
from schemas.context import Context
from schemas.errors import NotFound
from schemas.messages import ChatIn, MessageIn
from schemas.payloads import ContextQuery
from workers import queues
from workers.app import make_app

RULES = processes.ROOT / "ops" / "monitoring" / "alerts.yml"
FIRE_SECONDS, CLEAR_SECONDS = 180.0, 120.0
# Longer than a reading may be old before that is an alert.
FREEZE_SECONDS = 110.0
TOKENS_A_DAY = 1_000_000
_LATE = "now() - interval '2 hours'"
_DATED_BACK = f"UPDATE jobs SET due_at = {_LATE}, pending_since = {_LATE} WHERE kind = 'embed'"  # noqa: S608
_DUE = "SELECT count(*) FROM jobs WHERE kind = 'embed' AND due_at IS NOT NULL"
_GIVEN_UP = f"""INSERT INTO jobs (tenant_id, kind, key, due_at, dead_at)
    VALUES ('{API_TENANT}', 'summarize', 'session:0', NULL, now())"""  # noqa: S608 - our own words
_SPENT = f"""INSERT INTO daily_counters (tenant_id, day, name, slot, value)
    VALUES ('{API_TENANT}', (now() AT TIME ZONE 'UTC')::date, 'model_tokens', 0, {0.95 * TOKENS_A_DAY})"""  # noqa: S608
UNREACHABLE = {
    "BACKSCROLL_SESSION_SUMMARY_MODEL": "gpt-4.1-mini",
    # the port of `discard`, on which nothing listens
    "BACKSCROLL_OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "BACKSCROLL_OPENAI_API_KEY": "of-no-use",
    # less than a lease
    "BACKSCROLL_SESSION_SUMMARY_TIMEOUT_SECONDS": "10",
}
Steps = tuple[Callable[[], object], ...]


@dataclass(frozen=True)
class Case:
    """Something that goes wrong, the alerts that tell of it, and what remedies it."""

    what: str
    alerts: set[str]
    # done in this order; the last of `provoke` again and again where it `repeats`
    provoke: Steps
    remedy: Steps = ()
    repeats: bool = False


class Monitored:
    """A deployment with the process of the metrics and Prometheus."""

    def __init__(self, deployment: Deployment, metrics: DeployedProcess, port: int) -> None:
        self._on, self._metrics, self._port = deployment, metrics, port
        self._chats = 0
        self._filled = contextlib.ExitStack()

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=10) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def cases(self) -> Iterator[Case]:
        """Yield what goes wrong, one after the other."""
        process, sql, send = self._on.processes, self._sql, self._send
        yield Case(
            "the worker of embed killed, its jobs dated back",
            {"QueueWithoutWorker", "JobsLate", "MessagesWait", "DoctorFindsErrors"},
            (process["embed"].kill, partial(send, 1), self._until_due, partial(sql, _DATED_BACK)),
            (process["embed"].start,),
        )
        yield Case(
            "the clock killed, its last sweep dated back",
            {"SweepStopped"},
            (process["beat"].kill, partial(time.sleep, 6), self._date_back_sweep),
            (process["beat"].start,),
        )
        redis, postgres = self._on.redis, self._on.postgres
        yield Case("Redis killed", {"RedisDown"}, (redis.kill,), (redis.start,))
        yield Case("Postgres killed", {"PostgresDown"}, (postgres.kill,), (postgres.start,))
        freeze = Fault(kind="postgres-freeze", seconds=FREEZE_SECONDS, alone=True, choice=0.0)
        frozen = Thread(target=Faults(self._on).make, args=(freeze,))
        yield Case("Postgres frozen", {"SnapshotStale"}, (frozen.start,), (frozen.join,))
        forget = partial(sql, "DELETE FROM refused_payloads")
        yield Case("a malformed payload", {"PayloadsRefused"}, (self._send_rubbish,), (forget,))
        drop = partial(sql, "DELETE FROM jobs WHERE dead_at IS NOT NULL")
        yield Case("a job marked as given up", {"DeadLetters"}, (partial(sql, _GIVEN_UP),), (drop,))
        aside = "UPDATE arrivals SET quarantined_at = now(), error = 'chaos'"
        back = "UPDATE arrivals SET quarantined_at = NULL, error = NULL"
        yield Case(
            "messages set aside",
            {"MessagesQuarantined"},
            (process["ingest"].kill, partial(send, 1), partial(sql, aside)),
            (partial(sql, back), process["ingest"].start),
        )
        summarizer, well = process["summarize"], process["summarize"].environment
        # as it is shipped, without moods
        asking = {name: value for name, value in well.items() if name != providers.MOOD_FILE} | UNREACHABLE
        yield Case(
            "a language model that does not answer",
            {"ProviderStopped", "ModelFails"},
            (partial(_restart, summarizer, asking), partial(send, 12)),
            (partial(_restart, summarizer, well),),
        )
        unspent = partial(sql, "DELETE FROM daily_counters WHERE name = 'model_tokens'")
        yield Case("a budget spent", {"BudgetNearlySpent"}, (partial(sql, _SPENT),), (unspent,))
        yield Case("contexts without room", {"ContextsDegraded"}, (self._ask,), repeats=True)
        if self._on.without_disk is None:
            fill = partial(self._filled.enter_context, deployment.disk_filled(self._on.folder))
            yield Case(
                "a full disk", {"DiskNearlyFull"}, (fill,), (self._filled.close, self._on.revive_servers)
            )
        metrics = self._metrics
        yield Case("the process of /metrics killed", {"MetricsDown"}, (metrics.kill,), (metrics.start,))

    def _sql(self, statement: str) -> None:
        with self._on.connect() as connection:
            connection.execute(statement)

    def _date_back_sweep(self) -> None:
        with self._on.redis_client() as client:
            client.expire(queues.SWEPT, queues.SWEPT_SECONDS - 400)

    def _until_due(self) -> None:
        with self._on.connect() as connection:
            wait(lambda: count_rows(connection, _DUE) > 0, deployments.READY_SECONDS)

    def _send(self, chats: int) -> None:
        """Hand over a conversation in each of some new chats; it is over, and due to be summarized."""
        with closing(Database.from_settings(self._on.settings)) as database:
            for _ in range(chats):
                self._chats += 1
                said = f"The key number {self._chats} hangs behind the door of house {{}}."
                messages = [
                    MessageIn(
                        external_id=f"a{n}",
                        content=said.format(n),
                        position=n,
                        sender_id="ann",
                        sent_at=traffic.START,
                    )
                    for n in range(8)
                ]
                accept.accept(database, API_TENANT, ChatIn(chat_id=f"alerts:{self._chats}"), messages)

    def _send_rubbish(self) -> None:
        payload = json.dumps({"args": [], "kwargs": {"v": 1, "tenant": API_TENANT, "messages": "none"}})
        with closing(make_app(self._on.settings)) as app:
            queues.enqueue_payload(app, payload, None)

    def _ask(self) -> None:
        port, key = self._on.api
        api = Api(url=f"http://127.0.0.1:{port}", api_key=key)
        query = ContextQuery(chat_id="alerts:1", query="Who has the key?", budget_tokens=50)
        api.post("/v1/context", query, Context)


def _restart(process: DeployedProcess, environment: dict[str, str]) -> None:
    process.environment = environment
    process.restart()


def measure(say: Say) -> Outcome:
    """Provoke the alerts one by one, and note the seconds until they fire and until they clear.

    All but `DatabaseGrows`, which compares with yesterday.

    Raises `NotFound` where there is no Prometheus.
    """
    if shutil.which("prometheus") is None:
        raise NotFound(
            "There is no `prometheus` on the PATH: NO ALERT WAS EVALUATED (Debian's package `prometheus` has it)"
        )
    with deployments.running(own_disk=True) as deployment, _monitored(deployment) as monitored:
        say("waiting until nothing fires")
        wait(lambda: not monitored.firing(), CLEAR_SECONDS, pause=1)
        cases = [_play(monitored, case, deployment, say) for case in monitored.cases()]
    missed = [f"{alert} did not fire" for case in cases for alert in case["missed"]]
    lasting = [f"{case['by']}: not cleared" for case in cases if case["cleared"] is None]
    return Outcome(found={"cases": cases}, violations=missed + lasting)


def _play(monitored: Monitored, case: Case, deployment: Deployment, say: Say) -> dict[str, Any]:
    """Provoke and remedy one case, and note when all of its alerts have fired, and are cleared."""
    say(f"{case.what}: {', '.join(sorted(case.alerts))}")
    seen: set[str] = set()

    def all_fired() -> bool:
        seen.update(monitored.firing())
        return seen >= case.alerts

    for step in case.provoke:
        step()
    again = case.provoke[-1] if case.repeats else lambda: None
    fired = wait(all_fired, FIRE_SECONDS, pause=0.5, meanwhile=again)
    for step in case.remedy:
        step()
    # the next case begins in peace
    cleared = wait(lambda: not monitored.firing(), CLEAR_SECONDS, pause=0.5, meanwhile=deployment.tend)
    found = {"by": case.what, "fired": fired, "cleared": cleared}
    return {"alerts": sorted(case.alerts), **found, "missed": sorted(case.alerts - seen)}


@contextlib.contextmanager
def _monitored(deployment: Deployment) -> Iterator[Monitored]:
    """Run the metrics of a deployment, read every second, and a Prometheus on our rules."""
    folder, port, metrics_port = deployment.folder, free_port(), free_port()
    rules = re.sub(r"\bfor: \w+", "for: 1s", RULES.read_text(encoding="utf-8"))
    (folder / "alerts.yml").write_text(re.sub(r"\[\d+m\]", "[15s]", rules), encoding="utf-8")
    scraped = {"job_name": "backscroll", "static_configs": [{"targets": [f"127.0.0.1:{metrics_port}"]}]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [scraped],
    }
    # JSON is YAML
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    environment = deployment.processes["api"].environment | {"BACKSCROLL_LLM_DAILY_TOKENS": str(TOKENS_A_DAY)}
    options = ("--port", str(metrics_port), "--read-seconds", "1", "--doctor-seconds", "5")
    metrics = DeployedProcess("metrics", processes.metrics_command(*options), folder, environment)
    files = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb")
    command = ["prometheus", *files, f"--web.listen-address=127.0.0.1:{port}"]
    prometheus = DeployedProcess("prometheus", command, folder, environment)
    with contextlib.ExitStack() as cleanup:
        for process in (metrics, prometheus):
            cleanup.callback(process.kill)
            process.start()
        if wait(prometheus.is_ready, deployments.READY_SECONDS) is None:
            tail = prometheus.log.read_text(errors="replace")[-1500:]
            raise deployments.NotReady(f"Prometheus did not come up:\n{tail}")
        yield Monitored(deployment, metrics, port)
