"""Settings as variables of the environment, in both directions.

Reads no variable itself and checks no value (settings.py does).
"""

from collections.abc import Mapping

ENVIRONMENT_PREFIX = "POLYHOP_"
_NO_SETTINGS = ("CONFIG", "DEBUG", "LOG_JSON", "LOG_LEVEL")


def environment_settings(environment: Mapping[str, str]) -> dict[str, object]:
    """{dotted key: value} of all variables POLYHOP_A__B=value; two underscores separate section and name."""
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", "."): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name.removeprefix(ENVIRONMENT_PREFIX) not in _NO_SETTINGS
    }


def as_environment(values: Mapping[str, object]) -> dict[str, str]:
    """Settings by dotted name as variables (the inverse of `environment_settings`), for a process that is started.

    They do not go on a command line: everybody on the machine can read it, and addresses hold passwords.
    """
    return {
        ENVIRONMENT_PREFIX + name.upper().replace(".", "__"): _as_variable(value)
        for name, value in values.items()
        if value is not None
    }


def _as_variable(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
