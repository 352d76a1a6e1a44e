"""Forks of one process that has imported everything are what processes of their own would be."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ops.local.forks import PYTHON, SUPPORTED, Forks
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    not SUPPORTED, reason="Linux alone ends forks with the process that made them"
)
# any statement as a module's argument
RUN = (*PYTHON, "timeit", "-n1", "-r1")
WAIT = "import time; time.sleep(99)"


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    forks = Forks({"PATH": os.defpath, "OF_ALL": "yes"})
    yield forks
    forks.close()


def test_a_fork_has_its_own_environment_arguments_log_and_end(forks: Forks, tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_text("before\n")
    tell = "import os, sys; print(dict(os.environ), sys.argv[1:3], os.getsid(0) == os.getpid())"
    one = forks.start("one", [*RUN, tell], {"ONLY": "δικό του"}, str(log))
    other = forks.start("other", [*PYTHON, "json.tool", "/nowhere"], {}, str(tmp_path / "other.log"))
    assert (one.wait(60), other.wait(60)) == (0, 2)
    assert "before\n{'ONLY': 'δικό του'} ['-n1', '-r1'] True\n" in log.read_text()
    failing = forks.start("failing", [*RUN, "1 / 0"], {}, str(log))
    assert failing.wait(60) == 1
    assert "ZeroDivisionError" in log.read_text()


def test_forks_have_what_was_imported_and_no_thread(forks: Forks, tmp_path: Path) -> None:
    log = tmp_path / "log"
    tell = "import sys, threading; print('workers.tasks' in sys.modules, threading.active_count())"
    assert forks.start("one", [*RUN, tell], {}, str(log)).wait(60) == 0
    assert "True 1\n" in log.read_text()


def test_a_fork_is_signalled_and_waited_for(forks: Forks, tmp_path: Path) -> None:
    waiting = forks.start("waiting", [*RUN, WAIT], {}, str(tmp_path / "log"))
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.1)
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(60) == -signal.SIGTERM
    waiting.send_signal(signal.SIGTERM)


def test_no_fork_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, time; from ops.local.forks import PYTHON, Forks\n"
        f"fork = Forks({{}}).start('x', [*PYTHON, 'timeit', {WAIT!r}], {{}}, {str(tmp_path / 'log')!r})\n"
        "print(fork.pid, flush=True); time.sleep(99)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    until(lambda: not Path(f"/proc/{pid}").exists(), "it has ended", 10)


def test_forks_end_with_what_forks_them_and_the_next_is_made_by_another(forks: Forks, tmp_path: Path) -> None:
    first = forks.start("first", [*RUN, WAIT], {}, str(tmp_path / "log"))
    psutil.Process(first.pid).parent().kill()
    assert first.wait(10) == -signal.SIGKILL
    until(lambda: not Path(f"/proc/{first.pid}").exists(), "it has ended", 10)
    assert forks.start("second", [*RUN, "pass"], {}, str(tmp_path / "log")).wait(60) == 0
