"""Attempts that outlive their process: what moved them on, and which process may write."""

from alembic import op
from sqlalchemy import Boolean, Column, DateTime, ForeignKey, Integer, LargeBinary, String, true

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add inputs of open attempts, whether one may lose survivors, and the lease."""
    with op.batch_alter_table("rounds") as rounds:
        rounds.add_column(Column("exact", Boolean, nullable=False, server_default=true()))
    with op.batch_alter_table("rounds") as rounds:
        rounds.alter_column("exact", existing_type=Boolean, existing_nullable=False, server_default=None)
    op.create_table(
        "events",
        Column("id", Integer, primary_key=True),
        Column("context", String(64), ForeignKey("rounds.context"), nullable=False),
        Column("kind", String(32), nullable=False),
        Column("sender", String(64), nullable=False),
        Column("content", LargeBinary, nullable=False),
    )
    op.create_table(
        "leases",
        Column("name", String(64), primary_key=True),
        Column("token", Integer, nullable=False),
        Column("holder", String(64), nullable=False),
        Column("until", DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    """Refuse: an open attempt would be lost."""
    raise NotImplementedError("restore the backup made before the upgrade")
