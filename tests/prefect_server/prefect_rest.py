"""Prefect's REST interface, as tests ask it what a run left behind."""

import json
import urllib.request
from collections.abc import Mapping
from typing import Any


def post(environment: Mapping[str, str], path: str, body: Mapping[str, object] | None = None) -> Any:
    """What the server of this environment answers to a filter; without a body everything."""
    request = urllib.request.Request(
        environment["PREFECT_API_URL"] + path,
        data=json.dumps(body or {}).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)
