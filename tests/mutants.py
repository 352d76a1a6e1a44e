"""Measure how many small faults the stories notice: sampled mutants of a module, each run in a copy of the tree.

    python -m tests.mutants --module pipeline/people --count 60 --seed 1 --least 85

A mutant changes one comparison, constant, operator, sort, condition or statement. It runs the stories that reach its
lines, the nearest first, until one fails. Those that none notices are printed; the exit code says whether the share
that was noticed is at least `--least`. Postgres and Redis are started once; the checkout is never changed.
"""

import argparse
import importlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from coverage.numbits import numbits_to_nums
from hypothesis import Phase, settings
from psycopg.sql import SQL, Identifier

from tests.mutations import Mutant, mutants_of

CHECKOUT = Path(__file__).parents[1]
LEFT_OUT = (".venv", ".git", "__pycache__", ".hypothesis", ".*_cache", "*.egg-info")
SERVERS = "SERVERS_OF_MUTANTS"
"""The environment variable with the folder of the servers that run already."""
STORY_SECONDS = 120
"""A story that takes longer hangs; the slowest takes a few seconds."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
HANGS = 1000
"""Stands for the exit code of a run that was ended."""
PRELOADED = (
    *("alembic", "celery", "fastapi", "httpx", "hypothesis", "psycopg", "pydantic_settings", "redis"),
    *("sqlalchemy", "structlog", "uvicorn", "xdist"),
)
"""What every run of stories would import for seconds."""
OPTIONS = (
    *("-p", "tests.mutants", "-p", "no:cacheprovider", "-q", "--tb=line"),
    # the seed, so that chance decides nothing; plain, as the libraries are imported before anything is rewritten
    *("--hypothesis-seed=1", "--assert=plain"),
)
START_SECONDS = 60
"""Time for a run of stories beside what they took without a mutant."""

CONSENT = (
    *("tests/people", "tests/erasure", "tests/memories", "tests/ingest/test_accepting.py"),
    *("tests/ingest/test_chat_moves.py", "tests/api/test_users.py", "tests/events/test_payloads.py"),
)
SESSIONS = ("tests/ingest", "tests/erasure")
KEYS = (
    "tests/api/test_admission.py",
    "tests/api/test_keys.py",
    "tests/hostile/test_scopes.py",
    "tests/inspector/test_login.py",
)
STORIES: Mapping[str, Sequence[str]] = {
    "pipeline/people/": CONSENT,
    "pipeline/people/api_keys.py": (*KEYS, "tests/commands/test_keys.py", "tests/erasure"),
    "pipeline/people/visibility.py": ("tests/people",),
    "pipeline/ingest/": SESSIONS,
    "pipeline/ingest/accept.py": (*SESSIONS, "tests/people/test_consent.py"),
    "pipeline/ingest/sessionize.py": (
        *("tests/ingest/test_session_histories.py", "tests/ingest/test_sessionize.py"),
        *(
            "tests/ingest/test_sessions_stored.py",
            "tests/ingest/test_chat_moves.py",
            "tests/erasure/test_edits.py",
        ),
    ),
    "pipeline/recall/": ("tests/recall",),
    "pipeline/recall/profiles.py": ("tests/recall", "tests/guide/test_tables.py"),
    "pipeline/recall/query_log.py": ("tests/recall/test_querylog.py", "tests/erasure/test_forget_answers.py"),
    "workers/api/": ("tests/api",),
    "workers/api/access.py": (
        "tests/api/test_access.py",
        "tests/api/test_refusals.py",
        "tests/api/test_outages.py",
    ),
    "workers/api/scopes.py": (*KEYS, "tests/api/test_refusals.py"),
    "workers/api/admission.py": KEYS,
    "workers/api/keyring.py": ("tests/api/test_keyring.py", *KEYS, "tests/api/test_outages.py"),
    "ops/clients/python/backscroll_client/": ("tests/clients_python",),
}
"""The stories that can see a module, nearest first; of several entries the longest counts."""
PROGRAMS = ("tests/api/test_process.py",)
"""Of these, the stories whose module runs in a program of its own, where nobody notes which lines they reach."""


# Which stories see them


def stories_of(path: str) -> Sequence[str]:
    """Return the test files and folders that can see a module."""
    return STORIES[max((prefix for prefix in STORIES if path.startswith(prefix)), key=len)]


class Reached:
    """The stories that reach each line, as one run of them without mutants has recorded it."""

    def __init__(self, data: Path, tree: Path, told: str) -> None:
        self._contexts = defaultdict[tuple[str, int], set[str]](set)
        self._seconds = defaultdict[str, float](float)
        query = """SELECT file.path, context.context, line_bits.numbits FROM line_bits
            JOIN file ON file.id = file_id JOIN context ON context.id = context_id"""
        with closing(sqlite3.connect(data)) as connection:
            for path, context, bits in connection.execute(query):
                for line in numbits_to_nums(bits):
                    self._contexts[str(Path(path).relative_to(tree)), line].add(context)
        for seconds, story in re.findall(r"^([\d.]+)s (?:setup|call|teardown) +(\S.*)$", told, re.MULTILINE):
            for name in (story, story.partition("::")[0]):
                self._seconds[name] += float(seconds)

    def by(self, mutant: Mutant) -> list[str]:
        """Return the stories to run; none: nothing reaches the lines."""
        first, last = mutant.lines
        contexts = set[str]().union(*(self._contexts[mutant.path, n] for n in range(first, last + 1)))
        places = stories_of(mutant.path)
        if contexts == {""}:
            # they run as the module is imported
            return _without_nested(places)
        stories = set()
        for context in contexts - {""}:
            story, _, phase = context.rpartition("|")
            # what a fixture did is looked at by any story of the file
            stories.add(story if phase == "run" else story.partition("::")[0])
        stories = {story for story in (*stories, *PROGRAMS) if story.startswith(tuple(places))}
        files = {story for story in stories if "::" not in story}
        nearest = {
            s: n for s in stories for n, place in reversed(list(enumerate(places))) if s.startswith(place)
        }
        left = [s for s in stories if s in files or s.partition("::")[0] not in files]
        return sorted(left, key=lambda story: (nearest[story], self._seconds[story], story))

    def seconds(self, stories: Sequence[str]) -> float:
        """Return how long these took."""
        return sum(
            seconds
            for name, seconds in self._seconds.items()
            if "::" in name and name.startswith(tuple(stories))
        )


# Running them


def pytest_configure() -> None:
    """Stop at the first example that fails: nobody looks for a smaller one."""
    quick = settings(settings.default, phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False)
    settings.register_profile("mutants", quick)
    settings.load_profile("mutants")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Any:
    """Give stories the servers that run already; this module is a plugin of the runs that it starts."""
    folder = os.environ.get(SERVERS)
    if folder is None or fixturedef.argname not in {"postgres", "redis"}:
        return None
    from ops.local.embedded.postgres import EmbeddedPostgres
    from ops.local.embedded.redis import EmbeddedRedis

    server = EmbeddedPostgres if fixturedef.argname == "postgres" else EmbeddedRedis
    value = server(Path(folder) / fixturedef.argname)
    fixturedef.cached_result = value, fixturedef.cache_key(request), None
    return value


def serve() -> None:
    """Run stories for each line of options on the standard input; a process of its own for each, made in no time."""
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        options, told, seconds = json.loads(line)
        child = os.fork()
        if not child:
            os.setsid()
            descriptor = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            code = pytest.main(options)
            sys.stdout.flush()
            os._exit(code)
        deadline = time.monotonic() + seconds
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
            time.sleep(0.02)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        if not ended[0]:
            os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(ended[1]) if ended[0] else HANGS, flush=True)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a mutant."""

    # the story that failed, or why none did
    told: str
    killed: bool


class Bench:
    """A copy of the tree, and servers for all runs of stories in it."""

    def __init__(self, stack: ExitStack) -> None:
        # not where this module is a plugin: there it comes before the stories
        from ops.local.embedded.redis import EmbeddedRedis
        from tests.conftest import migrated_postgres

        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
        self.tree = self.folder / "tree"
        shutil.copytree(CHECKOUT, self.tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
        memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
        data = stack.enter_context(tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None))
        self._left_out: list[str] = []
        self._postgres = stack.enter_context(migrated_postgres(Path(data) / "postgres"))
        self._redis = stack.enter_context(EmbeddedRedis(Path(data) / "redis"))
        given = {SERVERS: data, "PYTHONPATH": str(self.tree), "COVERAGE_FILE": str(self.folder / "reached")}
        self._runner = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants", "--serve"],
            cwd=self.tree,
            env=os.environ | given,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(self._runner.kill)

    def run(self, stories: Sequence[str], *options: str, seconds: float = 3600) -> tuple[int, str]:
        """Run stories; return `(exit code, what was printed)`."""
        self._tidy()
        told = self.folder / "told"
        every = [*OPTIONS, f"--override-ini=timeout={STORY_SECONDS}", *options, *stories]
        assert self._runner.stdin is not None
        assert self._runner.stdout is not None
        print(json.dumps([every, str(told), seconds]), file=self._runner.stdin, flush=True)
        return int(self._runner.stdout.readline()), told.read_text()

    def reached(self, paths: Sequence[str]) -> Reached:
        """Run the stories without a mutant, and record which of them reach which lines."""
        rules = self.folder / "coveragerc"
        rules.write_text("[run]\ninclude =\n" + "".join(f"    {path}\n" for path in paths))
        recording = ["--cov", "--cov-context=test", "--cov-report=", f"--cov-config={rules}"]
        stories = list(dict.fromkeys(story for path in paths for story in stories_of(path)))
        code, told = self.run(_without_nested(stories), *recording, "--durations=0", "-vv")
        if code not in (0, 1):
            raise SystemExit(f"the stories cannot be run:\n{told[-3000:]}")
        self._left_out = FAILED.findall(told)
        for story in self._left_out:
            print(f"left out, as it fails without a mutant: {story}", flush=True)
        return Reached(self.folder / "reached", self.tree, told)

    def judge(self, mutant: Mutant, reached: Reached) -> Verdict:
        """Apply a mutant to the copy and run its stories."""
        stories = reached.by(mutant)
        if not stories:
            return Verdict(told="no story reaches it", killed=False)
        path = self.tree / mutant.path
        source = path.read_bytes()
        self._write(path, mutant.applied(source))
        try:
            passing = [option for story in self._left_out for option in ("--deselect", story)]
            seconds = START_SECONDS + 5 * reached.seconds(stories)
            code, told = self.run(stories, "-x", *passing, seconds=seconds)
        finally:
            self._write(path, source)
        if code in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            return Verdict(told=f"{len(stories)} stories pass", killed=False)
        if code == HANGS:
            return Verdict(told="they hang", killed=True)
        if code == pytest.ExitCode.USAGE_ERROR and "ImportError while loading conftest" not in told:
            raise SystemExit(f"{mutant}: its stories cannot be run:\n{told[-3000:]}")
        return Verdict(told=next(iter(FAILED.findall(told)), f"pytest ends with {code}"), killed=True)

    def _write(self, path: Path, source: bytes) -> None:
        path.write_bytes(source)
        # two versions of one second and size are alike to Python
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()

    def _tidy(self) -> None:
        """Drop what a run that was ended has left."""
        with redis.Redis.from_url(self._redis.url) as client:
            client.flushall()
        with psycopg.connect(self._postgres.superuser_dsn(), autocommit=True) as connection:
            kept = ["postgres", "template0", "template1", "backscroll"]
            left = connection.execute("SELECT datname FROM pg_database WHERE datname <> ALL (%s)", [kept])
            for (name,) in left.fetchall():
                connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def main() -> int:
    """Measure the share of mutants that stories kill."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--module", action="append", required=True, help="a file or folder; may be repeated")
    parser.add_argument("--count", type=int, default=60, help="mutants over all modules")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.0, help="the share in %% that must be killed")
    parser.add_argument("--list", action="store_true", help="print the sampled mutants and run nothing")
    if "--serve" in sys.argv:
        serve()
        return 0
    given = parser.parse_args()
    mutants = sampled(given.module, given.count, given.seed)
    if given.list:
        print(*mutants, sep="\n")
        return 0
    # beside whatever else the machine does
    os.setpriority(os.PRIO_PROCESS, 0, max(10, os.getpriority(os.PRIO_PROCESS, 0)))
    # so that nothing is left behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        bench = Bench(stack)
        reached = bench.reached(sorted({mutant.path for mutant in mutants}))
        killed = 0
        for mutant in mutants:
            verdict = bench.judge(mutant, reached)
            killed += verdict.killed
            print(f"{'killed  ' if verdict.killed else 'SURVIVED'} {mutant}  ({verdict.told})", flush=True)
    share = 100 * killed / len(mutants)
    print(f"{killed} of {len(mutants)} mutants killed: {share:.0f} %")
    return 0 if share >= given.least else 1


def sampled(modules: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Return a sample of the mutants of these files and folders, in the order of the files."""
    files = sorted({file for module in modules for file in _files(CHECKOUT / module)})
    every = [m for file in files for m in mutants_of(str(file.relative_to(CHECKOUT)), file.read_bytes())]
    chosen = random.Random(seed).sample(range(len(every)), min(count, len(every)))
    return [every[number] for number in sorted(chosen)]


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise SystemExit(f"there is no {path}")
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def _without_nested(stories: Sequence[str]) -> list[str]:
    return [s for s in stories if not any(s != other and s.startswith(f"{other}/") for other in stories)]


if __name__ == "__main__":
    sys.exit(main())
