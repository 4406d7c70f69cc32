"""A real PostgreSQL server of the tests' own, on a loopback port, in a folder that goes with it.

`tests/conftest.py` makes fixtures of it: ``postgres`` is the server, one per session, and ``postgres_url`` an empty database in it, one
per test. Without the server's programs, the driver or an account to run under (PostgreSQL refuses root) they skip, and say why.
"""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.engine import URL

OWNER = "owner"
ACCOUNTS = ("postgres", "nobody")
"""Under one of these root's tests start the server."""


class NoServerError(Exception):
    """There is no PostgreSQL to test with; the message says why."""


@dataclass(frozen=True)
class Server:
    """A running server; ``password`` is that of its owner."""

    port: int
    password: str = field(repr=False)

    def url(self, user: str, database: str) -> str:
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{database}"

    def owner(self, database: str) -> URL:
        return URL.create("postgresql+psycopg", OWNER, self.password, "127.0.0.1", self.port, database)

    def made(self) -> str:
        """Make an empty database and return its owner's URL."""
        name = f"t{secrets.token_hex(8)}"
        self._run(f"CREATE DATABASE {name}")
        return self.owner(name).render_as_string(hide_password=False)

    def dropped(self, url: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self._run(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        engine = create_engine(self.owner("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()


@contextmanager
def running() -> Generator[Server]:
    """Start a server and stop it afterwards; raises NoServerError."""
    initdb, control = _program("initdb"), _program("pg_ctl")
    if find_spec("psycopg") is None:
        raise NoServerError("the driver is not installed: pip install 'cohortsum[postgres]'")
    user = _account() if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        home, password = Path(folder), secrets.token_hex(16)
        (home / "password").write_text(password)
        if user is not None:
            for path in (home, home / "password"):
                shutil.chown(path, user)

        def run(*command: str) -> None:
            subprocess.run(command, check=True, user=user, stdout=subprocess.DEVNULL, cwd=home, timeout=120)  # noqa: S603

        data, port = str(home / "data"), _free_port()
        secret = f"--pwfile={home / 'password'}"
        kinds = ("--auth=scram-sha-256", "-E", "UTF8", "--locale=C", "-N")
        run(initdb, "-D", data, "-U", OWNER, secret, *kinds)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {home} -c fsync=off -c timezone=Asia/Kathmandu"
        run(control, "-D", data, "-w", "-l", str(home / "log"), "-o", options, "start")
        try:
            yield Server(port, password)
        finally:
            run(control, "-D", data, "-w", "-m", "immediate", "stop")


def _program(name: str) -> str:
    found = shutil.which(name)
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if found is None and not places:
        raise NoServerError(f"PostgreSQL's {name} is not installed")
    return found or str(places[-1])


def _account() -> str:
    for name in ACCOUNTS:
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise NoServerError(
        f"tests run as root, and no account of {', '.join(ACCOUNTS)} is there to run PostgreSQL"
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
