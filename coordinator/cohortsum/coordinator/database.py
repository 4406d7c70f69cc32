"""The database under the coordinator's store: SQLite or PostgreSQL, in which one transaction runs at a time.

What a transaction of the store decides rests on rows that it reads and leaves alone, and its lines of the audit log are on disk
before it commits. A conflict that comes to light at the commit, as with serialisable isolation, would come too late: the line
would say what never happened. So every transaction takes its turn first, over all processes at the database, and reads only then.
Nothing conflicts, nothing is repeated, and who waits in vain for `TURN_S` seconds is told so before anything was done.

A turn ends with its transaction, also where process or line died. PostgreSQL ends one that stood idle for `IDLE_S` seconds: a
process that slept in its turn wakes up without it, and its commit fails.
"""

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from cohortsum.crypto.errors import StoreError

TURN_S: float = 10
IDLE_S: float = 60
CONNECT_S = 10
TURN_KEY = int.from_bytes(b"cohort\x00s")
"""Number of the advisory lock that is a turn: of the store's transactions and of the migrations between them."""


def open_database(url: str) -> Engine:
    """Return an engine for a SQLAlchemy URL; raises StoreError for another kind of database, SQLAlchemyError for no URL."""
    parsed = make_url(url)
    match parsed.get_backend_name():
        case "sqlite":
            engine = create_engine(parsed, connect_args={"timeout": TURN_S})
            event.listen(engine, "connect", _make_durable)
        case "postgresql":
            waits = {"connect_timeout": CONNECT_S} if parsed.get_driver_name() == "psycopg" else {}
            known = {name: value for name, value in waits.items() if name not in parsed.query}
            engine = create_engine(
                parsed, isolation_level="READ COMMITTED", pool_pre_ping=True, connect_args=known
            )
        case other:
            raise StoreError(
                f"store: no database of kind {other}; expected sqlite:///FILE or postgresql+psycopg://..."
            )
    return engine


def take_turn(connection: Connection) -> None:
    """Wait until no other transaction of the store runs; the first thing in a transaction, whose end also ends the turn."""
    if connection.dialect.name == "sqlite":
        connection.execute(text("BEGIN IMMEDIATE"))
        return
    connection.execute(
        text(
            "SELECT set_config('lock_timeout', :turn, true), set_config('synchronous_commit', 'on', true),"
            " set_config('idle_in_transaction_session_timeout', :idle, true)"
        ),
        {"turn": f"{TURN_S}s", "idle": f"{IDLE_S}s"},
    )
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": TURN_KEY})


def _make_durable(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver begins no transaction by itself: take_turn does
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
