"""The command line: parses, calls, prints; errors become one sentence and an exit code.

Exit codes: 0 success, 2 wrong usage, 1 anything else (architecture.md section 9).
"""

import os
import sys

import typer

from polyhop import __version__
from polyhop.commands import (
    ask,
    cache,
    connect,
    demo,
    diagnose,
    doctor,
    entities,
    evaluate,
    export,
    generate,
    index,
    jobs,
    plan,
    results,
    score,
    sql,
    submit,
    sweep,
    verify,
    versions,
    worker,
)
from polyhop.output import print_error, print_line
from schemas.errors import ConfigurationError, EmptyQuestionError, PolyhopError, UnknownStrategyError

USAGE_ERRORS = (ConfigurationError, UnknownStrategyError, EmptyQuestionError)
DEBUG_VARIABLE = "POLYHOP_DEBUG"
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""
STOPPED = "polyhop: stopped; what was finished is kept."

app = typer.Typer(
    name="polyhop",
    help="Index a corpus once, answer multi-hop questions with every published graph-retrieval method.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("demo")(demo.demo)
app.command("index")(index.index)
app.command("plan")(plan.plan)
app.command("ask")(ask.ask)
app.command("eval")(evaluate.evaluate)
app.command("score")(score.score)
app.command("diagnose")(diagnose.diagnose)
app.command("generate")(generate.generate)
app.command("sweep")(sweep.sweep)
app.command("submit")(submit.submit)
app.command("worker")(worker.worker)
app.command("jobs")(jobs.jobs)
app.command("results")(results.results)
app.command("cancel")(jobs.cancel)
app.command("retry")(jobs.retry)
app.command("explain")(results.explain)
app.command("replay")(results.replay)
app.command("sql")(sql.sql)
app.add_typer(export.export, name="export")
app.command("verify")(verify.verify)
app.command("versions")(versions.versions)
app.command("doctor")(doctor.doctor)
app.add_typer(cache.app, name="cache")
app.add_typer(entities.app, name="entities")
app.command("connect")(connect.connect)


def _print_version(*, value: bool) -> None:
    if value:
        print_line(f"polyhop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),  # noqa: FBT001, FBT003
) -> None:
    """Index a corpus once, answer multi-hop questions with every published graph-retrieval method."""


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    try:
        app()
    except PolyhopError as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        print_error(f"polyhop: {error}")
        sys.exit(2 if isinstance(error, USAGE_ERRORS) else 1)
    except KeyboardInterrupt:
        print_error(STOPPED)
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # Typer turns Ctrl-C within a command into this code and says nothing
            print_error(STOPPED)
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        print_error(
            f"polyhop: unexpected {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} "
            f"This is a defect; run again with {DEBUG_VARIABLE}=1 and report what it prints."
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
