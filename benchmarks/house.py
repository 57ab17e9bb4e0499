"""Figures of the code itself: sizes, circles, imports between modules, what commands import and what they call.

Run: uv run python benchmarks/house.py [FOLDER]   (a checkout with its .venv, default this one)
tests/architecture/test_budget.py holds some of these numbers.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDERS = ("polyhop", "flows", "tasks", "schemas", "warehouse", "worker")
COMMANDS = {
    "versions": ("versions", "--index", "demo"),
    "jobs": ("jobs",),
    "ask": ("ask", "Where was Ada Lovelace born?", "--index", "demo"),
    "submit": ("submit", "polyhop/demo/questions.jsonl", "--index", "demo"),
}
_COUNT = """
import sys, polyhop.cli
try:
    polyhop.cli.main()
finally:
    rooms = ("polyhop", "flows", "tasks", "schemas", "warehouse", "worker")
    print(sum(name.split(".")[0] in rooms for name in sys.modules), file=sys.stderr)
"""

TRACED = {
    "index": ("index", "{corpus}", "--index", "tiny"),
    "ask": ("ask", "Where does the Nile flow?", "--index", "tiny"),
    "submit": ("submit", "{questions}", "--index", "tiny"),
    "worker": ("worker", "--until-empty"),
}
"""On an index of three passages and with one question."""
CORPUS = """{"id": "p1", "title": "The Nile", "text": "The Nile flows through Cairo."}
{"id": "p2", "title": "Cairo Tower", "text": "The Cairo Tower stands in Cairo."}
{"id": "p3", "title": "Warsaw", "text": "Warsaw lies on the Vistula."}
"""
_TRACE = """
import os, sys, threading
here = os.getcwd() + os.sep
rooms = tuple(here + room + os.sep for room in ("polyhop", "flows", "tasks", "schemas", "warehouse", "worker"))
calls, functions, files, arrows = 0, set(), set(), set()
real = {}
def place(code):
    if code.co_filename not in real:
        path = os.path.realpath(code.co_filename)
        real[code.co_filename] = path if path.startswith(rooms) else ""
    return real[code.co_filename]
def profile(frame, event, _):
    global calls
    if event != "call":
        return
    code = frame.f_code
    path = place(code)
    is_body = not code.co_flags & 2  # of a class or a module: only functions have locals of their own
    if not path or is_body or code.co_name.startswith("<"):
        return
    calls += 1
    functions.add((path, code.co_firstlineno))
    files.add(path)
    caller = frame.f_back
    while caller is not None and (not place(caller.f_code) or caller.f_code.co_name.startswith("<")):
        caller = caller.f_back
    if caller is not None and place(caller.f_code) != path:
        arrows.add((place(caller.f_code), path))
import polyhop.cli
threading.setprofile(profile)
sys.setprofile(profile)
try:
    polyhop.cli.main()
finally:
    sys.setprofile(None)
    print(len(files), len(functions), calls, len(arrows), file=sys.stderr)
"""


def module_files(checkout: Path) -> dict[str, Path]:
    """Files by module name, links left out; modules of the folders are polyhop.…, whatever they are imported as."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((checkout / folder).rglob("*.py")):
            parts = path.relative_to(checkout).with_suffix("").parts
            name = ".".join(parts if parts[-1] != "__init__" else parts[:-1])
            found[name if folder == "polyhop" else f"polyhop.{name}"] = path
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Names that a module imports, wherever the statement stands; old names of the folders begin with polyhop, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (f"polyhop.{name}" if name.split(".")[0] in FOLDERS[1:] else name for name in names)


def circles(checkout: Path) -> list[list[str]]:
    """Groups of modules that import each other, wherever the statements stand."""
    files = module_files(checkout)
    arrows = {
        name: {one for one in imported(ast.parse(path.read_text(encoding="utf-8"))) if one in files and one != name}
        for name, path in files.items()
        if path.name != "__init__.py"
    }
    while ends := {name for name, targets in arrows.items() if not targets & arrows.keys()}:
        arrows = {name: targets for name, targets in arrows.items() if name not in ends}
    while starts := arrows.keys() - {target for targets in arrows.values() for target in targets}:
        arrows = {name: targets for name, targets in arrows.items() if name not in starts}
    return [sorted(arrows)] if arrows else []


DIALECT: Mapping[str, str] = {
    "offset, rank, index, node, folder, column": r"places?",
    "instead of": r"in place of",
    "a condition, such as: if the queue is empty": r"nobody|no one|whoever",
    "fallback": r"stand-ins?|stands? in|stood in|makeshift",
    "duplicate": r"doubles|doublets?",
    "unavailable": r"(?:is|was|are) away|had enough",
    "similarity": r"likeness(?:es)?",
    "exact search, approximate search": r"compared with every vector|parted tables",
    "cached": r"kept from before",
    "removed in 0.2; use X": r"(?:is|are) gone",
    "unknown x": r"is no (?!longer|more)",
    "disables the garbage collector": r"search for cycles",
    "partial index, incremental run": r"what an edit touches",
    "batch, retry, lease, heartbeat, checkpoint, backoff": r"freight|rungs?|believed",
    "says, reports": r"told|tells",
    "again": r"anew",
    "repairs": r"mend(?:s|ed|ing)?",
    "with, next to": r"beside(?! the)",
    "a word for what it is": r"of (?:its|their) own|by itself|best first",
}
"""The patterns of words that house-style.md forbids, by what to write instead; `_` separates words of a name."""
_WORDS = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(DIALECT.values())})(?![A-Za-z])", re.IGNORECASE)
_QUESTION = re.compile(r"(?:What|Who|Whether|Of|That|Where|How|When|Why|Which)\b")
QUOTED = {
    "schemas/names.py",
    "schemas/types.py",
    "warehouse/names.py",
    "worker/reading/question.py",
    "worker/reading/candidates.py",
}
"""Modules whose strings are lists of English words."""
PAGES = ("README.md", "docs/cli.md", "docs/install.md", "docs/tutorial.md", "docs/how-to/*.md", "docs/reference/*.md")
TEMPLATES = ("polyhop/**/*.jinja",)


def dialect(checkout: Path) -> dict[str, list[str]]:
    """Finds forbidden words: in pages for users, in messages (strings that are sentences, templates) and in code.

    Returns:
        For each of `pages`, `messages` and `code` the lines with a word, as "file:line: word".
    """
    found: dict[str, list[str]] = {"pages": [], "messages": [], "code": []}
    for kind, globs in (("pages", PAGES), ("messages", TEMPLATES)):
        for path in sorted({path for glob in globs for path in checkout.glob(glob)}):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                if match := _WORDS.search(line):
                    found[kind].append(f"{path.relative_to(checkout)}:{number}: {match[0]}")
    for path in module_files(checkout).values():
        name, text = path.relative_to(checkout).as_posix(), path.read_text(encoding="utf-8")
        messages = set() if name in QUOTED else set(_message_lines(ast.parse(text)))
        for number, line in enumerate(text.splitlines(), start=1):
            if match := _WORDS.search(line):
                found["messages" if number in messages else "code"].append(f"{name}:{number}: {match[0]}")
    return found


def _message_lines(tree: ast.Module) -> Iterator[int]:
    """Lines of strings with a space that are no docstrings."""
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_string and " " in node.value.strip() and id(node) not in docstrings:
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def question_docstrings(checkout: Path) -> list[str]:
    """Docstrings that begin with a question word, as "file:line"."""
    return [
        f"{path.relative_to(checkout)}:{getattr(node, 'lineno', 1)}"
        for path in module_files(checkout).values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and _QUESTION.match(ast.get_docstring(node) or "")
    ]


def repeated_classes(checkout: Path) -> list[str]:
    """Names that two or more classes have; the retrievers of frameworks share one on purpose."""
    names = Counter(
        node.name
        for path in module_files(checkout).values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, count in names.items() if count > 1 and name != "PolyhopRetriever")


def ignored_imports(checkout: Path) -> int:
    """Imports that the contracts of import-linter ignore, patterns resolved to the imports that stand."""
    contracts = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    ignored = [entry.split(" -> ") for contract in contracts for entry in contract.get("ignore_imports", ())]
    return sum(
        fnmatchcase(name, source) and fnmatchcase(target, wanted)
        for name, path in module_files(checkout).items()
        for target in set(imported(ast.parse(path.read_text(encoding="utf-8"))))
        for source, wanted in ignored
    )


def small_modules(checkout: Path, least: int = 40) -> list[str]:
    """Modules with fewer lines of code than `least`, `__init__` and data left out; docstrings are no code."""
    return [
        name
        for name, path in module_files(checkout).items()
        if path.name != "__init__.py" and lines_without_docstrings(path.read_text(encoding="utf-8")) < least
    ]


def lines_without_docstrings(text: str) -> int:
    """Lines of code besides docstrings, comments and empty lines."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), start=1)
    return sum(
        number not in docstrings and bool(line.strip()) and not line.lstrip().startswith("#") for number, line in lines
    )


def shares(values: list[int]) -> str:
    """Median, 90th percentile and maximum."""
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]}/{ordered[len(ordered) * 9 // 10]}/{ordered[-1]}"


def sizes(checkout: Path) -> None:
    """Prints sizes and arrows."""
    files = module_files(checkout)
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    filled = {name: text for name, text in texts.items() if text.strip()}
    trees = {name: ast.parse(text) for name, text in filled.items()}
    arrows = {name: {one for one in imported(tree) if one in filled and one != name} for name, tree in trees.items()}
    importers = Counter(target for targets in arrows.values() for target in targets)
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    print(f"circles {circles(checkout)}, small modules {small_modules(checkout)}")
    print(f"files {len(filled)}, lines {sum(text.count(chr(10)) for text in filled.values())}")
    print(f"file lines p50/p90/max {shares([text.count(chr(10)) for text in filled.values()])}")
    print(f"functions {len(functions)}, lines p50/p90/max {shares(functions)}")
    print(f"arrows per module {sum(map(len, arrows.values())) / len(filled):.2f}")
    print(f"modules with one importer {sum(count == 1 for count in importers.values())}")
    lines = sum(map(lines_of_code, filled.values()))
    print(f"comments per 100 lines of code {100 * sum(map(comments_of, filled.values())) / lines:.1f}")
    tests = sum(lines_of_code(path.read_text(encoding="utf-8")) for path in (checkout / "tests").rglob("*.py"))
    print(f"test lines per line of code {tests / lines:.2f}")


def lines_of_code(text: str) -> int:
    """Lines that are neither empty nor only a comment; docstrings count."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())


def comments_of(text: str) -> int:
    """Comments, on lines of their own or behind code; those for tools (noqa, type, fmt) left out."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return sum(not comment.startswith(("# noqa", "# type:", "# fmt:")) for comment in comments)


def language(checkout: Path) -> None:
    """Prints counts of the house's language, and the lines with forbidden words if there are few."""
    found = dialect(checkout)
    print(f"forbidden words { ({kind: len(lines) for kind, lines in found.items()}) }")
    print(f"docstrings that begin with a question word {len(question_docstrings(checkout))}")
    print(f"class names used twice {repeated_classes(checkout)}, ignored imports {ignored_imports(checkout)}")
    for lines in found.values():
        print("\n".join(lines[:SHOWN]))


SHOWN = 40  # lines of a kind; chosen: one screen


def commands(checkout: Path) -> None:
    """Prints how many of our modules each command imports."""
    root = checkout / "polyhop-data" / "house"
    python = checkout / ".venv" / "bin" / "python"
    subprocess.run([python, "-m", "polyhop.cli", "demo", "--root", root], capture_output=True, check=True, cwd=checkout)
    for name, arguments in COMMANDS.items():
        done = subprocess.run(
            [python, "-c", _COUNT, *arguments, "--root", root],
            capture_output=True,
            text=True,
            cwd=checkout,
            check=False,
        )
        print(f"modules imported by {name}: {done.stderr.strip().splitlines()[-1]}")


def traced(checkout: Path, commands: Mapping[str, tuple[str, ...]] = TRACED) -> dict[str, tuple[int, int, int, int]]:
    """Files, functions, calls and arrows between files of each command.

    Bodies of modules and classes and comprehensions do not count.
    """
    found = {}
    with TemporaryDirectory() as folder:
        corpus, questions = Path(folder, "corpus.jsonl"), Path(folder, "questions.jsonl")
        corpus.write_text(CORPUS, encoding="utf-8")
        questions.write_text('{"id": "q1", "question": "Where does the Nile flow?"}\n', encoding="utf-8")
        for name, arguments in commands.items():
            given = [part.format(corpus=corpus, questions=questions) for part in arguments]
            done = subprocess.run(
                [checkout / ".venv" / "bin" / "python", "-c", _TRACE, *given, "--root", Path(folder, "root")],
                capture_output=True,
                text=True,
                cwd=checkout,
                check=False,
            )
            files, functions, calls, arrows = map(int, done.stderr.strip().splitlines()[-1].split())
            found[name] = files, functions, calls, arrows
    return found


def traces(checkout: Path) -> None:
    """Prints which functions of ours each command calls."""
    for name, (files, functions, calls, arrows) in traced(checkout).items():
        print(f"{name}: {functions} functions in {files} files, {calls} calls, {arrows} arrows between files")


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    sizes(FOLDER)
    language(FOLDER)
    commands(FOLDER)
    traces(FOLDER)
