"""The `cohortsum` command.

Exit codes: 0 done, 1 a fault of cohortsum itself, 2 something given to it is wrong, 3 a round ended without a result, 130
interrupted. `study diff` exits with 1 where two versions differ, `doctor` and `status` with 1 for warnings, `audit verify` with 1 for lines that
the database does not confirm. Text for people goes to standard error, results and JSON to standard output. No traceback reaches a user
unless COHORTSUM_DEBUG is set. What could name a person is scrubbed from both.
"""

import os
import sys
import traceback
from typing import Annotated

import typer

from cohortsum.cli import (
    audit,
    audit_log,
    coordinator_admin,
    demo,
    keys,
    node_admin,
    node_budget,
    node_studies,
    node_watch,
    notices,
    release,
    results,
    study,
    study_files,
    study_life,
    trustee_admin,
    verify,
)
from cohortsum.cli.consoles import messages
from cohortsum.cli.simulate import command as simulate
from cohortsum.crypto.errors import CohortsumError, RoundFailedError
from cohortsum.crypto.scrubbing import scrub_text

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
app.add_typer(study.app, name="study")
app.add_typer(keys.app, name="key")
app.add_typer(coordinator_admin.app, name="coordinator")
app.add_typer(node_admin.app, name="node")
app.add_typer(trustee_admin.app, name="trustee")
app.add_typer(audit.app, name="audit")
app.add_typer(release.app, name="release")
app.add_typer(results.app, name="results")
app.command("verify")(verify.verify)
app.command("test-notice")(notices.test_notice)
study.app.command("init")(study_files.init)
study.app.command("diff")(study_files.diff)
study.app.command("submit")(study_life.submit)
study.app.command("amend")(study_life.amend)
study.app.command("status")(study_life.status)
study.app.command("list")(study_life.show_list)
study.app.command("withdraw")(study_life.withdraw)
results.app.command("get")(study_life.get)
node_admin.app.command("studies")(node_studies.studies)
node_admin.app.command("preview")(node_studies.show_preview)
node_admin.app.command("approve")(node_studies.approve)
node_admin.app.command("decline")(node_studies.decline)
node_admin.app.command("revoke")(node_studies.revoke)
node_admin.app.command("budget")(node_budget.budget)
node_admin.app.command("withdraw")(node_watch.withdraw)
node_admin.app.command("status")(node_watch.status)
node_admin.app.command("recover")(node_watch.recover)
node_admin.app.command("compare")(node_watch.compare)
node_admin.app.command("run")(node_watch.run_node)
node_admin.app.add_typer(audit_log.node, name="audit")
coordinator_admin.app.add_typer(audit_log.coordinator, name="audit")
trustee_admin.app.add_typer(audit_log.trustee, name="audit")


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
        console.print(scrub_text(f"no result: {error.message}"), markup=False)
        sys.exit(3)
    except CohortsumError as error:
        console.print(scrub_text(f"error: {error.message}"), markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("interrupted; nothing more was sent", markup=False)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("COHORTSUM_DEBUG"):
            console.print(scrub_text(traceback.format_exc()), markup=False)
        name = type(error).__name__
        console.print(
            f"cohortsum failed ({name}); set COHORTSUM_DEBUG=1 to see where, and report it", markup=False
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
