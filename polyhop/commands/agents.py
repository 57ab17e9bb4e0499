"""`polyhop mcp`: tools for agents, by the Model Context Protocol."""

import asyncio
import logging
from typing import Annotated

from typer import Option

from polyhop.commands import options
from polyhop.commands.window import address, listening_socket, run_app, token_for
from polyhop.schemas.errors import import_extra
from polyhop.schemas.logs import PlainFormatter


def mcp(
    http: Annotated[bool, Option("--http", help="Serve streamable HTTP at /mcp instead of standard output.")] = False,
    host: Annotated[
        str, Option("--host", help="Address to serve on with --http; another than loopback needs POLYHOP_UI_TOKEN.")
    ] = "127.0.0.1",
    port: Annotated[int, Option("--port", min=1, max=65535, help="Port to serve on with --http.")] = 4281,
    set_: options.Set = None,
    root: options.Root = None,
) -> None:
    """Give agents tools that ask and read the indexes (Model Context Protocol), by standard input and output."""
    import_extra("polyhop mcp needs", "mcp", "mcp")
    from polyhop.server.agents import make_tools, read_bodies, serve_lines
    from polyhop.server.service import Service

    settings = options.settings_of(root, set_)
    token = token_for(host) if http else ""
    logging.getLogger().addHandler(logging.NullHandler())  # else the package adds its own, which prints tracebacks
    logs = logging.StreamHandler()
    logs.setFormatter(PlainFormatter(is_short=True))
    logging.getLogger("mcp").addHandler(logs)
    service = Service(settings)
    try:
        server = make_tools(service)
        if not http:
            asyncio.run(serve_lines(server))
            return
        from mcp.server.transport_security import TransportSecuritySettings

        from polyhop.server.guard import RequestGuard, own_hosts

        unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the gate checks the host
        app = server.streamable_http_app(stateless_http=True, transport_security=unguarded)
        with listening_socket(host, port) as listening:
            gate = RequestGuard(read_bodies(app), hosts=own_hosts(host), token=token)
            run_app(gate, listening, f"Agent tools at {address(host, port)}/mcp")
    finally:
        service.close()
