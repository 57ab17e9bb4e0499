"""Tests that are tried again: which, how often, and what the report says of them; in test sessions of their own."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
FOLDER = Path(__file__).resolve().parents[1] / "repeated_tests"
CONFTEST = f"""
import sys
sys.path.append({str(FOLDER)!r})
import repeated_tests
repeated_tests.PAUSE_SECONDS = 0.0

def pytest_configure(config):
    config.addinivalue_line("markers", "real_time: tried again")
    config.pluginmanager.register(repeated_tests)
"""
TESTS = """
import pytest
tries = []

@pytest.fixture
def fresh():
    return []

@pytest.fixture
def browser():
    return None

@pytest.mark.real_time
def test_slow_at_first(fresh):
    fresh.append(1)
    tries.append("slow")
    assert len(fresh) == 1
    assert tries.count("slow") == 3, "too slow"

def test_of_a_server(browser):
    tries.append("server")
    assert tries.count("server") == 2

@pytest.mark.real_time
def test_wrong():
    tries.append("wrong")
    assert False, f"wrong {tries.count('wrong')} times"

def test_plain():
    tries.append("plain")
    assert tries.count("plain") == 2
"""


@pytest.mark.parametrize("processes", [0, 1])
def test_only_what_depends_on_time_is_tried_again_and_a_fault_fails(pytester: pytest.Pytester, processes: int) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-p", "no:randomly", "-n", str(processes))
    done.assert_outcomes(passed=2, failed=2)
    text = done.stdout.str()
    assert "passed when tried again: 2" in text
    assert text.count("test_slow_at_first: failed before: call") == 2
    assert text.count("test_of_a_server: failed before: call") == 1
    assert "AssertionError: wrong 3 times" in text
    assert "plain" not in text.partition("passed when tried again")[2].partition("short test summary")[0]
