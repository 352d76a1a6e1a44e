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
