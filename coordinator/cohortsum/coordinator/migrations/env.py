"""Run by Alembic: the steps go over the connection, and into the transaction, of whoever asks for them."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
