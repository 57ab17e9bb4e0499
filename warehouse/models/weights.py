"""Where the published weights of all-MiniLM-L6-v2 lie, and proof that they are the published ones.

Knows nothing of graphs or sessions.
Invariant: nothing is built from a weights file whose sha256 was not compared with the published one.
"""

from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from polyhop.schemas.errors import ModelFileError

PACKAGE = "polyhop-weights"
IMPORT_NAME = "polyhop_weights"
INSTALL = f"pip install --force-reinstall --no-deps {PACKAGE}, or in a checkout: uv sync --reinstall-package {PACKAGE}"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"


def find_model_folder() -> Path:
    """The folder of the installed package that holds weights and tokenizer; the package itself is not imported.

    Raises:
        ModelFileError: If the package is not installed.
    """
    found = find_spec(IMPORT_NAME)
    if found is None or found.origin is None:
        raise ModelFileError(
            f"The package {PACKAGE} with the encoder's weights is not installed; install it with: {INSTALL}"
        )
    return Path(found.origin).parent


def load_weights(model_folder: Path) -> dict[str, Any]:
    """The published tensors by name, from bytes whose sha256 is the published one.

    Raises:
        ModelFileError: If the file is missing or differs from the published one.
    Cost: .2 s for 90 MB.
    """
    from safetensors.numpy import load

    weights = model_folder / WEIGHTS_FILE
    try:
        content = weights.read_bytes()
    except OSError as error:
        raise ModelFileError(f"Cannot read the encoder's weights {weights}: {error.strerror}.") from error
    digest = sha256(content).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ModelFileError(
            f"The encoder's weights {weights} are not the published ones: sha256 is {digest}, expected "
            f"{WEIGHTS_SHA256}. Install the package again: {INSTALL}"
        )
    tensors: dict[str, Any] = load(content)
    return tensors
