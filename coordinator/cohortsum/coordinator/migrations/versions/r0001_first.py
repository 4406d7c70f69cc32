"""The schema of version 0.1, whose databases were made without a revision in them."""

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None

TABLES = MetaData()
Table(
    "studies",
    TABLES,
    Column("digest", String(64), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("canonical", LargeBinary, nullable=False),
    Column("statistician", String(64), nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("state", String(32), nullable=False),
    Column("reason", Text, nullable=False),
    Column("submitted", DateTime(timezone=True), nullable=False),
    Column("closed", DateTime(timezone=True)),
)
Table(
    "answers",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("study", String(64), ForeignKey("studies.digest"), nullable=False),
    Column("site", String(64), nullable=False),
    Column("packet", LargeBinary, nullable=False),
    Column("received", DateTime(timezone=True), nullable=False),
    UniqueConstraint("study", "site"),
)
Table(
    "rounds",
    TABLES,
    Column("context", String(64), primary_key=True),
    Column("study", String(64), ForeignKey("studies.digest"), nullable=False),
    Column("round_id", String(32), nullable=False),
    Column("iteration", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", String(32), nullable=False),
    Column("reason", Text, nullable=False),
    Column("survivors", Text, nullable=False),
    Column("opening", LargeBinary, nullable=False),
    Column("opened", DateTime(timezone=True), nullable=False),
    Column("ended", DateTime(timezone=True)),
)
Table(
    "messages",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("context", String(64), ForeignKey("rounds.context"), nullable=False),
    Column("sender", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("packet", LargeBinary, nullable=False),
    Column("received", DateTime(timezone=True), nullable=False),
    UniqueConstraint("context", "sender", "kind"),
)
Table(
    "results",
    TABLES,
    Column("study", String(64), ForeignKey("studies.digest"), primary_key=True),
    Column("context", String(64), ForeignKey("rounds.context"), nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("sums", LargeBinary, nullable=False),
    Column("released", DateTime(timezone=True), nullable=False),
)
Table(
    "iterations",
    TABLES,
    Column("context", String(64), ForeignKey("rounds.context"), primary_key=True),
    Column("survivors", Text, nullable=False),
    Column("advertised", Text, nullable=False),
    Column("sums", LargeBinary, nullable=False),
)
Table(
    "reviews",
    TABLES,
    Column("study", String(64), ForeignKey("studies.digest"), primary_key=True),
    Column("profile", String(32), nullable=False),
    Column("held", Text, nullable=False),
    Column("waivers", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("earlier", LargeBinary, nullable=False),
    Column("unfinished", Text, nullable=False),
    Column("written", Boolean, nullable=False),
)
Table(
    "items",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("study", String(64), ForeignKey("studies.digest"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("place", Integer, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("state", String(32), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("rules", Text, nullable=False),
    Column("computed", DateTime(timezone=True), nullable=False),
    UniqueConstraint("study", "name", "turn"),
    UniqueConstraint("study", "name", "digest"),
)
Table(
    "decisions",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("item", Integer, ForeignKey("items.id"), nullable=False),
    Column("act", String(32), nullable=False),
    Column("by", String(64), nullable=False),
    Column("role", String(32), nullable=False),
    Column("key", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Column("remedy", Text, nullable=False),
    Column("confirmed", Text, nullable=False),
    Column("at", String(64), nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("taken", DateTime(timezone=True), nullable=False),
    UniqueConstraint("item", "act", "by"),
)
Table(
    "presence",
    TABLES,
    Column("site", String(64), primary_key=True),
    Column("seen", DateTime(timezone=True), nullable=False),
)
Table(
    "facts",
    TABLES,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)


def upgrade() -> None:
    """Make every table."""
    TABLES.create_all(op.get_bind())


def downgrade() -> None:
    """Refuse: there is nothing before."""
    raise NotImplementedError("restore the backup made before the upgrade")
