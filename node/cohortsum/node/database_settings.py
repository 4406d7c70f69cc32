"""A database's address as an admin writes it: an SQLAlchemy URL without a secret.

A password in a settings file is read by everybody who may read the settings, and travels with every copy and every
message that quotes a line. So a URL that holds one is refused, and what is refused is never quoted.
"""

from pathlib import Path

_SECRETS = frozenset(("password", "passwd", "pwd", "passfile", "sslpassword", "token"))
"""Options of a URL that hold or name a secret."""


def anchored_url(url: str, folder: Path | None) -> str:
    """Return ``url`` with a relative SQLite file made relative to ``folder``.

    Raises ValueError, which quotes nothing, for text that is no URL and for a URL with a password.
    """
    from sqlalchemy.engine import make_url  # loads SQLAlchemy, which a site without a database does not need
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        parsed = None
    if parsed is None:
        raise ValueError("expected an SQLAlchemy URL like postgresql+psycopg://user@host:5432/database")
    if parsed.password is not None or _SECRETS & {key.lower() for key in parsed.query}:
        raise ValueError(
            "expected a URL without a password; name the environment variable (password_env) or the file"
            " (password_file) that holds it"
        )
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise ValueError("expected the file of the SQLite database: sqlite:///clinical.db")
        if folder is not None:
            parsed = parsed.set(database=str(folder / str(parsed.database)))
    return parsed.render_as_string()
