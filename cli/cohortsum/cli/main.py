"""The `cohortsum` command.

Exit codes: 0 done, 1 a fault of cohortsum itself, 2 something given to it is wrong, 3 a round ended without a result, 130
interrupted. Text for people goes to standard error, results and JSON to standard output. No traceback reaches a user
unless COHORTSUM_DEBUG is set.
"""

import os
import sys
from typing import Annotated

import typer

from cohortsum.cli import coordinator_admin, demo, keys, node_admin, results, study
from cohortsum.cli.consoles import messages
from cohortsum.cli.simulate import command as simulate
from cohortsum.crypto.errors import CohortsumError, RoundFailedError

app = typer.Typer(
    name="cohortsum",
    help="Secure aggregation of statistics across sites whose rows may not leave.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(demo.demo)
app.command("simulate")(simulate.simulate)
app.command("results")(results.results)
app.add_typer(study.app, name="study")
app.add_typer(keys.app, name="key")
app.add_typer(coordinator_admin.app, name="coordinator")
app.add_typer(node_admin.app, name="node")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cohortsum {version('cohortsum')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Secure aggregation of statistics across sites whose rows may not leave."""


def main() -> None:
    """Run the command and exit with its code."""
    console = messages()
    try:
        app(prog_name="cohortsum")
    except RoundFailedError as error:
        console.print(f"no result: {error.message}", markup=False)
        sys.exit(3)
    except CohortsumError as error:
        console.print(f"error: {error.message}", markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("interrupted; nothing more was sent", markup=False)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("COHORTSUM_DEBUG"):
            raise
        name = type(error).__name__
        console.print(
            f"cohortsum failed ({name}); set COHORTSUM_DEBUG=1 to see where, and report it", markup=False
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
