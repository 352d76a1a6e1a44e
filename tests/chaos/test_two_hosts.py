"""Workers on another host: a cut of the network between them and the servers loses, doubles and stops nothing."""

import json
from pathlib import Path

import pytest

from ops.dev.deployed import hosts
from ops.dev.deployed.namespaces import NoNamespace
from tests.ops.running import backscroll


def test_nothing_is_lost_doubled_or_stuck_when_the_network_to_the_workers_is_cut(tmp_path: Path) -> None:
    try:
        hosts.require()
    except NoNamespace as why:
        pytest.skip(f"TWO HOSTS ARE NOT TESTED HERE: {why}")
    ended = backscroll(
        *("dev", "two-hosts", "--messages", "150", "--cut", "12", "--lease", "5", "--json"),
        cwd=tmp_path,
        seconds=850,
        TMPDIR=str(tmp_path),
    )
    assert ended.returncode == 0, ended.stderr
    plays = json.loads(ended.stdout)["plays"]
    assert [play["name"] for play in plays] == ["one host", "two hosts", "two hosts, cut for 12 s"]
    for play in plays:
        assert (play["lost"], play["doubled"], play["stuck"], play["violations"]) == (0, 0, 0, []), play
        assert play["accepted"] > 90
    one, two, cut = plays
    assert one["placed_per_second"] > 0
    assert two["placed_per_second"] > 0
    assert cut["settled"] > 0
    # what is on its way from Redis to a worker is as durable as the connection between them
    assert cut["payloads_lost"] <= 24


def test_a_machine_that_allows_no_hosts_is_told_so(tmp_path: Path) -> None:
    nothing = tmp_path / "bin"
    nothing.mkdir()
    ended = backscroll("dev", "two-hosts", cwd=tmp_path, PATH=str(nothing))
    assert ended.returncode == 4
    assert "needs `ip`" in ended.stderr
