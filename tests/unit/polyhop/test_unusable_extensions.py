"""What another package adds and cannot be used is refused in one sentence that names the package, whatever it adds."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from polyhop.cli import Commands
from polyhop.schemas import errors as extensions
from polyhop.schemas.errors import ConfigurationError
from polyhop.tasks import registry
from polyhop.tasks.registry import stages_for
from polyhop.warehouse.files.formats import records_of_others
from polyhop.warehouse.vectors.kinds import kind_of
from polyhop.worker.strategies.registry import spec_of

USES: dict[str, tuple[str, Callable[[], Any]]] = {
    "polyhop.commands": ("command", lambda: Commands().get_command(None, ".theirs")),
    "polyhop.formats": ("format", lambda: records_of_others(Path("a.theirs"), ".theirs", "a.theirs")),
    "polyhop.stages": ("stage", lambda: stages_for(["theirs"])),
    "polyhop.strategies": ("strategy", lambda: spec_of(".theirs")),
    "polyhop.vectors": ("vector kind", lambda: kind_of(".theirs")),
}
WRONG = {
    "polyhop.formats": "is polyhop.schemas.text:__doc__, which is not a function",
    "polyhop.stages": "is polyhop.schemas.text:__doc__, which is not a Stage of that name",
    "polyhop.strategies": "is missing: its module polyhop.schemas.text declares none of that name with @strategy",
    "polyhop.vectors": "is polyhop.schemas.text:__doc__, which is not a VectorKind of that name",
}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes entry points known as if their package were installed."""

    def known(*points: EntryPoint) -> None:
        monkeypatch.setattr(
            extensions, "entry_points", lambda group: [point for point in points if point.group == group]
        )
        extensions.extensions.cache_clear()
        registry._of_others.cache_clear()

    yield known
    extensions.extensions.cache_clear()
    registry._of_others.cache_clear()


@pytest.mark.parametrize("group", USES)
def test_an_extension_that_does_not_load_is_named_with_its_package(group: str, install: Callable[..., None]) -> None:
    noun, use = USES[group]
    install(EntryPoint(".theirs", "polyhop_nowhere:thing", group))
    with pytest.raises(ConfigurationError) as raised:
        use()
    assert str(raised.value) == (
        f"The {noun} '.theirs' of the package 'polyhop_nowhere' does not load: ModuleNotFoundError: No module named "
        "'polyhop_nowhere'. Update or uninstall that package."
    )


@pytest.mark.parametrize("group", WRONG)
def test_an_extension_of_another_type_is_named_with_its_package(group: str, install: Callable[..., None]) -> None:
    noun, use = USES[group]
    install(EntryPoint(".theirs", "polyhop.schemas.text:__doc__", group))
    with pytest.raises(ConfigurationError) as raised:
        use()
    package = "polyhop.schemas.text"
    assert str(raised.value) == (
        f"The {noun} '.theirs' of the package '{package}' {WRONG[group]}. Update or uninstall that package."
    )


def test_extensions_are_listed_by_name_and_searched_once(install: Callable[..., None]) -> None:
    first, second = (EntryPoint(name, "polyhop_nowhere", "polyhop.commands") for name in "ab")
    install(second, first, EntryPoint("c", "polyhop_nowhere", "polyhop.stages"))
    assert list(extensions.extensions("polyhop.commands").items()) == [("a", first), ("b", second)]
    assert extensions.extensions("polyhop.commands") is extensions.extensions("polyhop.commands")
