"""The steps by which a store of one version becomes that of the next: Alembic's environment, with a revision per file.

A file in ``versions`` is never changed once it was released, because databases of that revision are out there. What comes after is
a new file: ``rNNNN_what.py``, whose ``down_revision`` is the one before. It works with `alembic.op` alone and never with the tables of
`cohortsum.coordinator.store`, which go on changing. It must do for SQLite and PostgreSQL; all steps of an upgrade are one transaction,
so a step commits nothing. There is no way down: going back is a restore (`downgrade` refuses).
"""
