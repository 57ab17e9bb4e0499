"""What is built and installed: one import name, the same from a checkout and from the source distribution."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
    code = "import polyhop.schemas.ids as ids, importlib.util as util\n" + "".join(
        f"assert util.find_spec('{name}') is None, '{name}'\nimport polyhop.{name}\n" for name in FOLDERS
    )
    # -P and -I leave out the present folder and the environment, -S the editable install of this checkout.
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    done = _run(sys.executable, "-I", "-S", "-c", path + code + "print(ids.__file__)")
    assert Path(done.strip()) == tmp_path / "polyhop" / "schemas" / "ids.py"


def test_the_source_distribution_builds_the_same_wheel(wheels: tuple[Path, Path]) -> None:
    ours, theirs = ({i.filename: i.CRC for i in zipfile.ZipFile(wheel).infolist()} for wheel in wheels)
    assert ours == theirs


def test_the_folders_are_links(tmp_path: Path) -> None:
    assert {name: (PROJECT / "polyhop" / name).resolve() for name in FOLDERS} == {
        name: PROJECT / name for name in FOLDERS
    }


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout
