"""The steps of a Dockerfile without an engine: each RUN and COPY in a folder that stands for the image's root.

Knows the instructions that our Dockerfile has and refuses others. Both stages share one root and one base image: a
virtual environment of this interpreter. What a step writes outside the paths of the image is not caught.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

HANDED_ON = (
    "PIP_",
    "UV_",
    "XDG_",
    "SSL_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http",
    "https",
    "no_proxy",
    "LANG",
)
"""Variables of the machine that say how packages are reached; nothing else of it is seen by a step."""
STEP_SECONDS = 500


class DockerfileError(Exception):
    """A step failed, or is of a kind that this file does not know."""


@dataclass
class Image:
    """What the last stage left.

    Attributes:
        root: Folder that stands for `/`.
        environment: Of a process in a container, its paths below `root`.
        folder: WORKDIR, below `root`.
        user, entrypoint: As the instructions say.
    """

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()
    user: str = ""
    entrypoint: Sequence[str] = ()

    def path(self, inside: str) -> Path:
        """Where a path of the image lies on this machine."""
        return (self.folder if not inside.startswith("/") else self.root) / inside.lstrip("/")

    def rewritten(self, text: str) -> str:
        """A command or value with the absolute paths in it moved below `root`."""
        return re.sub(r"(?<![\w.$}*/-])/(?=[a-z])", f"{self.root}/", text)


def base_image(root: Path) -> Path:
    """Programs of the base image, python and pip: a virtual environment below `root`."""
    subprocess.run([sys.executable, "-m", "venv", str(root / "base-image")], check=True)
    return root / "base-image" / "bin"


def build(dockerfile: Path, root: Path, programs: Path) -> Image:
    """Runs every step; the folder of `dockerfile` is the context.

    Args:
        dockerfile: Its file.
        root: An empty folder.
        programs: Folder of the base image's programs.

    Raises:
        DockerfileError: If a step fails or is not known.
    """
    image = Image(root)
    for line in instructions(dockerfile.read_text(encoding="utf-8")):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            image = Image(root, _machine(programs), root)
        elif name in _STEPS:
            _STEPS[name](image, rest.strip(), dockerfile.parent)
        else:
            raise DockerfileError(f"{dockerfile} has {name}; teach {__file__} what it does")
    return image


def instructions(text: str) -> list[str]:
    """One per element, continued lines joined, without comments."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [re.sub(r"\s+", " ", line) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def copied(context: Path, target: Path) -> None:
    """Copies what .dockerignore leaves of a context: it names all (`*`), exceptions (`!NAME`), and `**/NAME`."""
    rules = instructions((context / ".dockerignore").read_text(encoding="utf-8"))
    kept, anywhere = set(), set()
    for rule in rules:
        if rule.startswith("!"):
            kept.add(rule[1:])
        elif rule.startswith("**/"):
            anywhere.add(rule[3:])
        elif rule != "*":
            raise DockerfileError(f".dockerignore has {rule!r}; teach {__file__} what it means")
    for name in sorted(kept):
        source = context / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True, ignore=_named(anywhere), dirs_exist_ok=True)
        else:
            shutil.copy2(source, target / name)


def _named(names: set[str]) -> "shutil._IgnoreFnCallable":  # type: ignore[name-defined]
    return lambda _, entries: {entry for entry in entries if any(fnmatch(entry, name) for name in names)}


def _machine(programs: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key.startswith(HANDED_ON)}
    return {**kept, "HOME": os.environ.get("HOME", "/"), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}


def _run(image: Image, command: str, _: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", image.rewritten(command)],
        cwd=image.folder,
        env=image.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=STEP_SECONDS,
    )
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


def _volume(image: Image, path: str, _: Path) -> None:
    if not image.path(path).is_dir():
        raise DockerfileError(f"VOLUME {path}: no step made it")


def _user(image: Image, name: str, _: Path) -> None:
    image.user = name


def _entrypoint(image: Image, words: str, _: Path) -> None:
    image.entrypoint = json.loads(words)


def _command(image: Image, words: str, _: Path) -> None:
    json.loads(words)


_STEPS = {
    "RUN": _run,
    "COPY": _copy,
    "ENV": _set_environment,
    "WORKDIR": _work_in,
    "VOLUME": _volume,
    "USER": _user,
    "ENTRYPOINT": _entrypoint,
    "CMD": _command,
}
