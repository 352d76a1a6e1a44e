"""Stories about processes and locks: what must end ends, and one lock has one holder."""

import os
import subprocess
import sys
from pathlib import Path

from ops.local.embedded.folder import is_taken, open_lock, take


def test_a_lock_has_one_holder_until_the_last_heir_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    assert not is_taken(path)
    mine, others = open_lock(path), open_lock(path)
    assert take(mine)
    assert not take(others)
    heir = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"], pass_fds=[mine])
    os.close(mine)
    assert is_taken(path)
    heir.kill()
    heir.wait()
    assert not is_taken(path)
    assert take(others)
    os.close(others)
