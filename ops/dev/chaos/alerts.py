"""Provoke each alert of `ops/monitoring` on a cast, and see a real Prometheus fire it, and clear it after the remedy.

Times that nobody waits for are written into the database (a job due for hours); `for:` and ranges are shortened.
"""

import contextlib
import json
import re
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread

from ops.client import Api
from ops.dev.chaos import cast as casting
from ops.dev.chaos import namespaces, providers, traffic
from ops.dev.chaos.cast import API_TENANT, Cast
from ops.dev.chaos.faults import Faults
from ops.dev.chaos.member import Member
from ops.dev.chaos.model_server import ModelServer
from ops.dev.chaos.plan import Fault
from ops.dev.observe import Say, count, wait
from ops.local import processes
from ops.local.embedded.ports import free_port
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
UNPROVOKED = {"DatabaseGrows": "compares with yesterday"}
_LATE = "now() - interval '2 hours'"
_DUE = "SELECT count(*) FROM jobs WHERE kind = 'embed' AND due_at IS NOT NULL"
_GIVEN_UP = f"""INSERT INTO jobs (tenant_id, kind, key, due_at, dead_at)
    VALUES ('{API_TENANT}', 'summarize', 'session:0', NULL, now())"""  # noqa: S608 - our own words
Step = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Something that goes wrong, the alerts that tell of it, and what remedies it."""

    what: str
    alerts: tuple[str, ...]
    # done in this order; the last of `provoke` again and again where it `repeats`
    provoke: tuple[Step, ...]
    remedy: tuple[Step, ...] = ()
    repeats: bool = False


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One alert: how long it took to fire, and after the remedy to clear."""

    alert: str
    provoked_by: str
    fired_after: float | None
    cleared_after: float | None


class Stage:
    """A cast with the process of the metrics, a model's server and Prometheus."""

    def __init__(self, cast: Cast, metrics: Member, port: int, model: ModelServer) -> None:
        self._cast, self._metrics, self._port, self._model = cast, metrics, port, model
        self._chats = 0
        self._filled = contextlib.ExitStack()

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/alerts", timeout=10) as answer:
            found = json.load(answer)["data"]["alerts"]
        return {each["labels"]["alertname"] for each in found if each["state"] == "firing"}

    def cases(self, *, has_disk: bool) -> Iterator[Case]:
        """Yield what goes wrong, one after the other."""
        cast, members, sql, send = self._cast, self._cast.members, self._sql, self._send
        dated_back = f"UPDATE jobs SET due_at = {_LATE}, pending_since = {_LATE} WHERE kind = 'embed'"  # noqa: S608
        yield Case(
            what="the worker of embed killed, its jobs dated back",
            alerts=("QueueWithoutWorker", "JobsLate", "MessagesWait", "DoctorFindsErrors"),
            provoke=(members["embed"].kill, partial(send, 1), self._until_due, partial(sql, dated_back)),
            remedy=(members["embed"].start,),
        )
        yield Case(
            what="the clock killed, its last sweep dated back",
            alerts=("SweepStopped",),
            provoke=(members["beat"].kill, partial(time.sleep, 6), self._date_back_sweep),
            remedy=(members["beat"].start,),
        )
        for server, alert in ((cast.redis, "RedisDown"), (cast.postgres, "PostgresDown")):
            what = f"{server.name} killed"
            yield Case(what=what, alerts=(alert,), provoke=(server.kill,), remedy=(server.start,))
        freeze = Fault(kind="postgres-freeze", seconds=FREEZE_SECONDS, alone=True, choice=0.0)
        frozen = Thread(target=Faults(cast).make, args=(freeze,))
        what = "Postgres frozen"
        yield Case(what=what, alerts=("SnapshotStale",), provoke=(frozen.start,), remedy=(frozen.join,))
        yield Case(
            what="a malformed payload",
            alerts=("PayloadsRefused",),
            provoke=(self._send_rubbish,),
            remedy=(partial(sql, "DELETE FROM refused_payloads"),),
        )
        yield Case(
            what="a job marked as given up",
            alerts=("DeadLetters",),
            provoke=(partial(sql, _GIVEN_UP),),
            remedy=(partial(sql, "DELETE FROM jobs WHERE dead_at IS NOT NULL"),),
        )
        yield Case(
            what="messages set aside",
            alerts=("MessagesQuarantined",),
            provoke=(
                members["ingest"].kill,
                partial(send, 1),
                partial(sql, "UPDATE arrivals SET quarantined_at = now(), error = 'chaos'"),
            ),
            remedy=(
                partial(sql, "UPDATE arrivals SET quarantined_at = NULL, error = NULL"),
                members["ingest"].start,
            ),
        )
        # as it is shipped, without moods
        del members["summarize"].environment[providers.MOOD_FILE]
        members["summarize"].environment.update(self._model.settings())
        yield Case(
            what="a language model that does not answer",
            alerts=("ProviderStopped", "ModelFails"),
            provoke=(members["summarize"].kill, members["summarize"].start, partial(send, 12)),
            remedy=(partial(self._model.answer, tokens=1),),
        )
        yield Case(
            what="a budget, and a model that answers at length",
            alerts=("BudgetNearlySpent",),
            provoke=(partial(self._model.answer, tokens=TOKENS_A_DAY // 4), partial(send, 6)),
            remedy=(
                partial(self._model.answer, tokens=1),
                # calls that are being made end first
                partial(time.sleep, 5),
                partial(sql, "UPDATE daily_counters SET day = day - 1"),
            ),
        )
        what, alerts = "contexts without room", ("ContextsDegraded",)
        yield Case(what=what, alerts=alerts, provoke=(self._ask,), repeats=True)
        if has_disk:
            fill = partial(self._filled.enter_context, namespaces.filled(cast.folder))
            yield Case(
                what="a full disk",
                alerts=("DiskNearlyFull",),
                provoke=(fill,),
                remedy=(self._filled.close, self._revive),
            )
        what, alerts = "the process of /metrics killed", ("MetricsDown",)
        yield Case(what=what, alerts=alerts, provoke=(self._metrics.kill,), remedy=(self._metrics.start,))

    def _sql(self, statement: str) -> None:
        with self._cast.connect() as connection:
            connection.execute(statement)

    def _date_back_sweep(self) -> None:
        with self._cast.redis_client() as client:
            client.expire(queues.SWEPT, queues.SWEPT_SECONDS - 400)

    def _revive(self) -> None:
        for server in (self._cast.postgres, self._cast.redis):
            if not server.is_running():
                server.start()

    def _until_due(self) -> None:
        with self._cast.connect() as connection:
            wait(lambda: count(connection, _DUE) > 0, casting.READY_SECONDS)

    def _send(self, chats: int) -> None:
        """Hand over a conversation in each of some new chats; it is over, and due to be summarized."""
        with closing(Database.from_settings(self._cast.settings)) as database:
            for _ in range(chats):
                self._chats += 1
                chat = ChatIn(chat_id=f"alerts:{self._chats}")
                said = [
                    MessageIn(
                        external_id=f"a{number}",
                        sender_id=f"chaos:{number % 2}",
                        content=f"The key number {number} hangs behind the door of house {self._chats}.",
                        sent_at=traffic.START,
                        position=number,
                    )
                    for number in range(8)
                ]
                accept.accept(database, API_TENANT, chat, said)

    def _send_rubbish(self) -> None:
        payload = json.dumps({"args": [], "kwargs": {"v": 1, "tenant": API_TENANT, "messages": "none"}})
        with closing(make_app(self._cast.settings)) as app:
            queues.enqueue_payload(app, payload, None)

    def _ask(self) -> None:
        api = Api(url=f"http://127.0.0.1:{self._cast.port}", api_key=self._cast.key)
        query = ContextQuery(chat_id="alerts:1", query="Who has the key?", budget_tokens=50)
        api.post("/v1/context", query, Context)


def measure(say: Say) -> list[Seen]:
    """Provoke every alert that can be, one case after the other. Raises `NotFound` where there is no Prometheus."""
    if shutil.which("prometheus") is None:
        raise NotFound(
            "There is no `prometheus` on the PATH: NO ALERT WAS EVALUATED (Debian's package `prometheus` has it)"
        )
    with tempfile.TemporaryDirectory(prefix="backscroll-alerts-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (
            namespaces.mounted(folder) as problem,
            casting.playing(folder) as cast,
            _monitored(cast) as stage,
        ):
            say("waiting until nothing fires")
            wait(lambda: not stage.firing(), CLEAR_SECONDS, pause=1)
            cases = stage.cases(has_disk=problem is None)
            return [seen for case in cases for seen in _play(stage, case, cast, say)]


def _play(stage: Stage, case: Case, cast: Cast, say: Say) -> list[Seen]:
    say(f"{case.what}: {', '.join(case.alerts)}")
    fired: dict[str, float] = {}
    cleared: dict[str, float] = {}

    def note(seen: dict[str, float], *, fires: bool) -> bool:
        now = stage.firing()
        for alert in case.alerts:
            if (alert in now) == fires:
                seen.setdefault(alert, round(time.monotonic() - began, 1))
        return len(seen) == len(case.alerts)

    began = time.monotonic()
    for step in case.provoke:
        step()
    again = case.provoke[-1] if case.repeats else lambda: None
    wait(lambda: note(fired, fires=True), FIRE_SECONDS, pause=0.5, meanwhile=again)
    for step in case.remedy:
        step()
    began = time.monotonic()
    wait(lambda: note(cleared, fires=False), CLEAR_SECONDS, pause=0.5, meanwhile=cast.tend)
    # the next case begins in peace
    wait(lambda: not stage.firing(), CLEAR_SECONDS, pause=0.5, meanwhile=cast.tend)
    return [
        Seen(alert=each, provoked_by=case.what, fired_after=fired.get(each), cleared_after=cleared.get(each))
        for each in case.alerts
    ]


@contextlib.contextmanager
def _monitored(cast: Cast) -> Iterator[Stage]:
    """Run the metrics of a cast, read every second, and a Prometheus on our rules."""
    port, metrics_port = free_port(), free_port()
    rules = re.sub(r"\bfor: \w+", "for: 1s", RULES.read_text(encoding="utf-8"))
    (cast.folder / "alerts.yml").write_text(re.sub(r"\[\d+m\]", "[15s]", rules), encoding="utf-8")
    scraped = {"job_name": "backscroll", "static_configs": [{"targets": [f"127.0.0.1:{metrics_port}"]}]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [scraped],
    }
    # JSON is YAML
    (cast.folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    environment = cast.members["api"].environment | {"BACKSCROLL_LLM_DAILY_TOKENS": str(TOKENS_A_DAY)}
    options = ("--port", str(metrics_port), "--read-seconds", "1", "--doctor-seconds", "5")
    metrics = Member("metrics", processes.metrics_command(*options), cast.folder, environment)
    files = (f"--config.file={cast.folder}/prometheus.yml", f"--storage.tsdb.path={cast.folder}/tsdb")
    command = ["prometheus", *files, f"--web.listen-address=127.0.0.1:{port}"]
    prometheus = Member("prometheus", command, cast.folder, environment)
    with contextlib.ExitStack() as cleanup:
        stage = Stage(cast, metrics, port, cleanup.enter_context(closing(ModelServer())))
        for member in (metrics, prometheus):
            cleanup.callback(member.kill)
            member.start()
        if wait(lambda: _answers(stage), casting.READY_SECONDS) is None:
            raise casting.CastNotReady(f"Prometheus did not come up:\n{prometheus.log.read_text()[-1500:]}")
        yield stage


def _answers(stage: Stage) -> bool:
    with contextlib.suppress(OSError):
        stage.firing()
        return True
    return False
