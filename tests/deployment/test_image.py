"""The Dockerfile installs what the project describes, and copies all of it."""

import re
import tomllib

from tests.deployment.conftest import CHECKOUT


def test_what_the_image_installs_exists_and_all_of_us_is_copied() -> None:
    text = (CHECKOUT / "ops/Dockerfile").read_text()
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    # the default may be changed by whoever builds
    extras = re.search(r"^ARG EXTRAS=(.+)", text, re.MULTILINE)
    assert extras
    assert set(extras[1].split(",")) <= project["project"]["optional-dependencies"].keys()
    copied = set()
    for line in text.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied |= {source.partition("/")[0] for source in line.split()[1:-1]}
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    needed = {*packages, project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    assert {name.partition("/")[0] for name in needed} <= copied
    # and nothing else goes to its builder
    lines = (CHECKOUT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == copied


def test_one_container_runs_all_of_it_as_an_ordinary_user_with_a_volume_and_a_health_check() -> None:
    text = (CHECKOUT / "ops/Dockerfile").read_text()
    stages = dict(re.findall(r"^FROM \S+(?: AS (\S+))?\n(.*?)(?=^FROM|\Z)", text, re.M | re.S))
    one, project = stages["one"], tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    assert re.search(r"^FROM base AS one$", text, re.M)
    assert "USER 10001:10001" in stages["base"]
    assert "USER" not in one
    volume = re.search(r"^VOLUME (\S+)$", one, re.M)
    assert volume
    assert f"BACKSCROLL_DATA_DIR={volume[1]}" in one
    assert f"--mode 700 {volume[1]}" in stages["base"]
    assert "/readyz" in re.search(r"^HEALTHCHECK .*\n.*$", one, re.M)[0]  # type: ignore[index]
    assert 'CMD ["backscroll", "up"]' in one
    # what it needs beside the image of one process, which is the default
    assert '".[embedded]"' in stages["build-one"]
    assert "embedded" in project["project"]["optional-dependencies"]
    assert text.rindex('CMD ["backscroll", "--help"]') > text.index("AS one")
    # and the first page of the README says how
    assert f"{volume[1]} " in (CHECKOUT / "README.md").read_text().partition("The demo asks")[0]
