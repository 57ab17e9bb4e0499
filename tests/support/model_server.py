"""The scripted model server as a process: `python tests/support/model_server.py --port 0 --script FILE --log FILE`.

Prints its address, appends each request to the log as a line of JSON and lists them all at GET /requests.
"""

import argparse
import json
import threading
from pathlib import Path

from scripted_server import ModelServer


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser(description="Scripted model server.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    server = ModelServer(options.port, options.log)
    if options.script:
        server.script(json.loads(options.script.read_text(encoding="utf-8")))
    server.start()
    print(server.url, flush=True)  # noqa: T201
    threading.Event().wait()


if __name__ == "__main__":
    main()
