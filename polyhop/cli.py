"""The command line: parses, calls, prints; errors become one sentence and an exit code.

Exit codes: 0 success, 2 wrong usage, 75 a run or worker waits for a model, 1 anything else (architecture.md section 9).
"""

import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from polyhop import __version__
from polyhop.output import print_error, print_line
from polyhop.schemas import errors
from polyhop.schemas.logs import configure_logs
from polyhop.schemas.text import printable

USAGE_ERRORS = (errors.ConfigurationError, errors.UnknownStrategyError, errors.EmptyQuestionError)
DEBUG_VARIABLE = "POLYHOP_DEBUG"
GROUPS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Index and ask": {"index": ("demo", "plan", "index"), "ask": ("ask", "connect"), "entities": ("entities",)},
    "Question queues": {"queue": ("submit", "worker", "jobs")},
    "Evaluation": {"evaluate": ("eval", "score", "tune", "tune-prompts")},
    "What is stored": {"stores": ("sql", "versions", "export", "cache")},
    "Pages and programs": {"servers": ("ui", "mcp", "tokens")},
    "Operation": {"operate": ("doctor", "verify", "maintain", "deploy", "serve")},
}
"""Our commands in the order of the help, by group and module of polyhop.commands, whose functions have their names."""
OURS: Mapping[str, str] = {
    name: f"{module}:{'evaluate' if name == 'eval' else name.replace('-', '_')}"
    for group in GROUPS.values()
    for module, names in group.items()
    for name in names
}
ALIASES: Mapping[str, str] = {name: f"queue:{name}" for name in ("results", "cancel", "retry", "explain", "replay")}
"""`polyhop results 3` is `polyhop jobs results 3`; not listed in the help."""
EXAMPLES: Mapping[str, Sequence[str]] = {
    "demo": ("polyhop demo",),
    "plan": (
        "polyhop plan corpus.jsonl",
        "polyhop plan corpus.jsonl --set extraction.extractor=model --set models.extract=openai/gpt-4o-mini",
    ),
    "index": (
        "polyhop index corpus.jsonl --index mine",
        "polyhop index folder/ --index mine --set corpus.language=de",
        "polyhop index --index mine --add-strategy naive-vector",
        "polyhop index --graph triples.jsonl --index mine",
    ),
    "ask": (
        'polyhop ask "Where was the architect of the tower born?" --index mine',
        'polyhop ask "Who owned the mill in 1850?" --index mine --where "metadata.year >= 1900" --explain',
        'polyhop ask "Who owned the mill?" --index mine,other --strategy bridge-masked --html answer.html',
    ),
    "connect": ('polyhop connect "Ada Lovelace" "Charles Babbage" --index mine',),
    "entities": (
        'polyhop entities explain "River Thames" "Thames" --index mine',
        'polyhop entities edit merge "River Thames" "Thames" --index mine',
        'polyhop entities suggest "PROJECT=Project *" --index mine',
    ),
    "submit": (
        "polyhop submit questions.jsonl --index mine",
        "polyhop submit questions.jsonl --index mine --strategy bridge --priority 5 --wait",
    ),
    "worker": ("polyhop worker", "polyhop worker --queues default,urgent --until-empty"),
    "jobs": (
        "polyhop jobs --workers",
        "polyhop jobs results 3 --out answers.parquet",
        "polyhop jobs retry 3 --question q17",
        "polyhop jobs cancel 3",
        "polyhop jobs explain 3 q17 --html answer.html",
        "polyhop jobs replay 3 q17 --strategy graph-dense",
    ),
    "eval": (
        "polyhop eval questions.jsonl --index mine --strategies all",
        'polyhop eval questions.jsonl --index mine --strategies "bridge,bm25" --baseline bm25',
        'polyhop eval questions.jsonl --index mine --strategies bridge --fail-below "recall@5=.8"',
    ),
    "score": ("polyhop score predictions.jsonl",),
    "tune": ('polyhop tune questions.jsonl --index mine --strategy "bridge:seeds=3,5,10"',),
    "tune-prompts": ("polyhop tune-prompts --index mine --set models.extract=openai/gpt-4o",),
    "sql": (
        "polyhop sql --index mine --tables",
        'polyhop sql "FROM entities WHERE is_named ORDER BY df DESC LIMIT 10" --index mine',
    ),
    "versions": ("polyhop versions --index mine", "polyhop versions --index mine --use 3"),
    "export": (
        "polyhop export neo4j --index mine --uri bolt://localhost:7687",
        "polyhop export extraction extraction.jsonl --index mine",
        "polyhop export graphml graph.graphml --index mine",
        "polyhop export parquet graph --index mine",
    ),
    "cache": ("polyhop cache stats", "polyhop cache evict --older-than-days 90"),
    "ui": ("polyhop ui", "polyhop ui --port 8080 --allow-changes"),
    "mcp": ("polyhop mcp --root /data/polyhop", "polyhop mcp --http --port 4281"),
    "tokens": (
        "polyhop tokens add anna --role change",
        "polyhop tokens add sales --role ask --only-index mine --where \"metadata.team = 'sales'\"",
        "polyhop tokens list",
        "polyhop tokens remove anna",
    ),
    "doctor": ("polyhop doctor",),
    "verify": ("polyhop verify --index mine", "polyhop verify --index mine --neo4j --repair"),
    "maintain": ("polyhop maintain --dry-run", "polyhop maintain --index mine"),
    "deploy": ("polyhop deploy --index mine --source corpus.jsonl --schedule incremental",),
    "serve": ("polyhop serve --index mine --source corpus.jsonl",),
}
"""In the help of each command; a test parses every one with its command's own parser."""
OTHERS = "From other packages"
COMMANDS = "polyhop.commands"
"""Entry points of other packages: the name of a command, and the function that Typer makes one of."""
FORMATS = {"{corpus formats}": "formats:described_formats", "{graph formats}": "graph_files:described_graphs"}
"""In the help of a command: the formats in which a source is read, and the function that lists them."""
INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it
STOPPED = "polyhop: stopped; finished work is kept."
_UsageError: Any = typer.BadParameter.__base__
"""What Typer raises for all wrong usage; it exports only this class's children."""


@contextmanager
def _printable_usage() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        if type(error.__context__).__name__ == "ValidationError":  # of pydantic, which checks values for Typer
            from polyhop.schemas.settings import broken_rule

            error.message = f"it {broken_rule(cast('Any', error.__context__))}."
        error.message = printable(error.message)
        raise


class Command(TyperCommand):
    """A command whose help may name what installed packages bring: they are asked when the help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help."""
        for parameter in cast("Any", self.params):
            for gap, described in FORMATS.items():
                if gap in (getattr(parameter, "help", None) or ""):
                    module, function = described.split(":")
                    formats = getattr(import_module(f"polyhop.warehouse.files.{module}"), function)()
                    parameter.help = parameter.help.replace(gap, formats)
        super().format_help(ctx, formatter)


class Commands(TyperGroup):
    """The group of all commands; the module of a command is imported when it is called or listed.

    Commands of other packages are entry points of the group `polyhop.commands`; ours keep their names. Typer quotes
    wrong arguments in its messages; here they become fit for a terminal.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help."""
        return [*OURS, *(name for name in errors.extensions(COMMANDS) if name not in OURS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, or a group of commands; None if there is none of that name."""
        target = OURS.get(cmd_name) or ALIASES.get(cmd_name)
        if target is None and cmd_name not in errors.extensions(COMMANDS):
            self.commands = dict.fromkeys(self.list_commands(ctx), cast("Any", None))  # what Typer suggests names from
            return None
        if target is None:
            function = errors.load_extension(errors.extensions(COMMANDS)[cmd_name], "command")
        else:
            module, attribute = target.split(":")
            function = getattr(import_module(f"polyhop.commands.{module}"), attribute)
        if isinstance(function, typer.Typer):
            made: Any = typer.main.get_group(function)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(cmd_name, cls=Command)(function)
            made = typer.main.get_command(alone)
        made.name = cmd_name
        holds = (group for group, modules in GROUPS.items() if any(cmd_name in names for names in modules.values()))
        made.rich_help_panel = next(holds, OTHERS)
        made.epilog = "\n\n".join(("Examples:", *EXAMPLES[cmd_name])) if cmd_name in EXAMPLES else made.epilog
        return made

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """Parses the global options."""
        with _printable_usage():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parses and runs a command."""
        with _printable_usage():
            return super().invoke(ctx)


app = typer.Typer(
    name="polyhop",
    cls=Commands,
    help="Index a corpus once, answer multi-hop questions with every published graph-retrieval method.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(*, value: bool) -> None:
    if value:
        print_line(f"polyhop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),  # noqa: FBT001, FBT003
    log_level: str | None = typer.Option(
        None, "--log-level", help="Log level on standard error: debug, info, warning or error."
    ),
    log_json: bool = typer.Option(False, "--log-json", help="Log one JSON object per line."),  # noqa: FBT001, FBT003
) -> None:
    """Index a corpus once, answer multi-hop questions with every published graph-retrieval method."""
    del version  # its callback has printed it
    configure_logs(log_level, as_json=log_json or None)


def _print_trace() -> None:
    """The traceback of the error at hand, for those who ask for it, without the secrets that vendors' errors quote."""
    if os.environ.get(DEBUG_VARIABLE):
        for line in traceback.format_exc().splitlines():
            print_error(line)


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    try:
        app()
    except errors.PolyhopError as error:
        _print_trace()
        # Below the sentence the bad records if it lists some; other line feeds come from names or servers.
        lines = str(error).split("\n") if isinstance(error, errors.QuarantineExceededError) else [str(error)]
        for line in (f"polyhop: {lines[0]}", *lines[1:]):
            print_error(line)
        waits = isinstance(error, errors.WaitingError)
        sys.exit(errors.WaitingError.exit_code if waits else 2 if isinstance(error, USAGE_ERRORS) else 1)
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
    except Exception as error:  # noqa: BLE001 - the last handler that can report anything
        _print_trace()
        print_error(
            f"polyhop: unexpected {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} "
            f"This is a bug; run again with {DEBUG_VARIABLE}=1 and report what it prints."
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
