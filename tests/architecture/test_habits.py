"""CONTRIBUTING names what exists, the workflow runs .ci/run, and the wheel has types and licence."""

import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
CONTRIBUTING = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TESTS = (PROJECT / "tests/e2e/test_extensions.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_links_lead_to_files(name: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (PROJECT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (PROJECT / link).exists()] == []


def test_contributing_names_every_entry_point_and_only_tests_that_exist() -> None:
    example = tomllib.loads((PROJECT / "examples/extensions/pyproject.toml").read_text(encoding="utf-8"))
    rows = [line for line in CONTRIBUTING.splitlines() if "`polyhop." in line and line.startswith("|")]
    assert {re.findall(r"`(polyhop\.\w+)`", row)[0] for row in rows} == set(example["project"]["entry-points"])
    named = [re.findall(r"`(test_\w+)`", row)[0] for row in rows]
    assert [test for test in named if f"def {test}(" not in TESTS] == []


def test_every_file_of_the_example_package_is_in_contributing() -> None:
    modules = {path.name for path in (PROJECT / "examples/extensions/polyhop_examples").glob("*.py")} - {"__init__.py"}
    assert {name for name in modules if f"/{name})" not in CONTRIBUTING} == set()


def test_the_workflow_runs_what_a_developer_runs() -> None:
    workflow = yaml.safe_load((PROJECT / ".github/workflows/ci.yaml").read_text(encoding="utf-8"))
    commands = [step["run"] for step in workflow["jobs"]["tests"]["steps"] if "run" in step]
    assert [command.split()[-1] for command in commands] == [".ci/run"]


def test_issue_forms_can_be_read() -> None:
    for path in (PROJECT / ".github/ISSUE_TEMPLATE").glob("*.yaml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form), path
        assert all(part["attributes"]["label"] for part in form["body"]), path


def test_the_wheel_has_its_types_and_its_licence(tmp_path: Path) -> None:
    command = ["uv", "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(PROJECT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
        licence = next(name for name in names if name.endswith(".dist-info/licenses/LICENSE"))
        metadata = wheel.read(next(name for name in names if name.endswith("METADATA"))).decode()
        assert wheel.read(licence) == (PROJECT / "LICENSE").read_bytes()
    assert "polyhop/py.typed" in names
    assert "License-Expression: Apache-2.0" in metadata
    assert "Classifier: Typing :: Typed" in metadata
