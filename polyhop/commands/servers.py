"""`polyhop ui` and `mcp`: pages and an HTTP API, and tools for agents by the Model Context Protocol."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from polyhop.commands import options
from polyhop.output import print_json, print_line, print_table
from polyhop.schemas.errors import ConfigurationError, import_extra
from polyhop.schemas.logs import PlainFormatter

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from polyhop.warehouse.files.layout import Layout

TOKEN_VARIABLE = "POLYHOP_UI_TOKEN"  # noqa: S105 - the name of a variable
MIN_TOKEN_CHARACTERS = 16  # chosen: 64 bits of a random token in hexadecimal digits
ACCEPTED_AT_ONCE = (
    16  # connections between two looks at what they sent; chosen: few compared with those that may be open
)
BACKLOG = 2_048  # connections that the system holds until they are accepted
DRAIN_SECONDS = 30  # for what runs to finish after SIGTERM; chosen: below the 90 s of systemd


def ui(
    host: Annotated[
        str, Option("--host", help=f"Address to serve on; another than loopback needs tokens, or {TOKEN_VARIABLE}.")
    ] = ("127.0.0.1"),
    port: Annotated[int, Option("--port", min=1, max=65535, help="Port to serve on.")] = 4280,
    allow_changes: Annotated[
        bool,
        Option(
            "--allow-changes", help="Let callers make indexes, change documents, and submit, retry and cancel jobs."
        ),
    ] = False,
    no_pages: Annotated[
        bool, Option("--no-pages", help="Serve only the HTTP API and the chat endpoint, without pages.")
    ] = False,
    set_: options.Set = None,
    root: options.Root = None,
) -> None:
    """Look into indexes and jobs by a browser, and ask them over HTTP. SIGTERM finishes what runs."""
    import_extra("polyhop ui needs", "uvicorn", "ui")
    import_extra("polyhop ui needs", "python-multipart", "ui", module="python_multipart")
    from polyhop.server.app import make_app
    from polyhop.warehouse.files.layout import Layout

    settings = options.settings_of(root, set_)
    token = token_for(host, Layout(settings.root))
    with listening_socket(host, port) as listening:
        app = make_app(settings, allows_changes=allow_changes, has_pages=not no_pages, host=host, token=token)
        what, path = ("HTTP API", "api/v1/openapi.json") if no_pages else ("Pages", "")
        run_app(app, listening, f"{what} at {address(host, port)}/{path}")


def mcp(
    http: Annotated[bool, Option("--http", help="Serve streamable HTTP at /mcp instead of standard output.")] = False,
    host: Annotated[
        str,
        Option("--host", help="Address to serve on with --http; another than loopback needs tokens."),
    ] = "127.0.0.1",
    port: Annotated[int, Option("--port", min=1, max=65535, help="Port to serve on with --http.")] = 4281,
    set_: options.Set = None,
    root: options.Root = None,
) -> None:
    """Give agents tools that ask and read the indexes (Model Context Protocol), by standard input and output."""
    import_extra("polyhop mcp needs", "mcp", "mcp")
    from polyhop.server.agents import make_tools, read_bodies, serve_lines
    from polyhop.server.service import Service
    from polyhop.warehouse.files.layout import Layout

    settings = options.settings_of(root, set_)
    token = token_for(host, Layout(settings.root)) if http else ""
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

        from polyhop.server.access import Tokens
        from polyhop.server.guard import RequestGuard, own_hosts

        unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the gate checks the host
        app = server.streamable_http_app(stateless_http=True, transport_security=unguarded)
        with listening_socket(host, port) as listening:
            gate = RequestGuard(read_bodies(app), hosts=own_hosts(host), tokens=Tokens(service.layout, token))
            run_app(gate, listening, f"Agent tools at {address(host, port)}/mcp")
    finally:
        service.close()


tokens = typer.Typer(help="Tokens of those who may ask `polyhop ui`, with a role each.", no_args_is_help=True)


@tokens.command("add")
def add(
    name: Annotated[str, Argument(help="Who has the token; a name for lines of the log.")],
    role: Annotated[
        Literal["read", "ask", "change", "admin"],
        Option("--role", help="read: look at indexes; ask: also ask; change: also change; admin: also see settings."),
    ] = "ask",
    only_index: Annotated[
        list[str] | None, Option("--only-index", help="Only this index; may be repeated. Default: all.")
    ] = None,
    where: Annotated[
        str, Option("--where", help="Answers from records that match only, as in ask --where; implies asking only.")
    ] = "",
    root: options.Root = None,
) -> None:
    """Make a token and print it once; only its hash is kept."""
    from polyhop.server.access import Access, TokenRole, add_token
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.tables.filters import require_condition

    own = " ".join(where.split())
    if own:
        require_condition(own)
    access = Access(name, TokenRole[role.upper()], tuple(only_index or ()), own)
    print_line(add_token(Layout(options.settings_of(root).root), access))


@tokens.command("list")
def listed(root: options.Root = None, json: options.Json = False) -> None:
    """List the tokens: names, roles and limits."""
    from polyhop.server.access import listed_tokens
    from polyhop.warehouse.files.layout import Layout

    known = listed_tokens(Layout(options.settings_of(root).root))
    rows = [[one.name, one.role.name.lower(), ", ".join(one.indexes) or "all", one.where] for one in known]
    columns = ["name", "role", "indexes", "where"]
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows:
        print_table(columns, rows)
    else:
        print_line("There are no tokens; make one with: polyhop tokens add NAME")


@tokens.command("remove")
def remove(
    name: Annotated[str, Argument(help="Name of the token.")],
    root: options.Root = None,
) -> None:
    """Remove a token; it ends at once, also in a running server."""
    from polyhop.server.access import remove_token
    from polyhop.warehouse.files.layout import Layout

    remove_token(Layout(options.settings_of(root).root), name)


def token_for(host: str, layout: "Layout") -> str:
    """The token from the environment; "" if there is none, which is enough on loopback, or with tokens of the root."""
    from polyhop.server.access import listed_tokens
    from polyhop.server.guard import is_loopback

    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token and not is_loopback(host) and not listed_tokens(layout):
        raise ConfigurationError(
            f"Other machines can reach {host}; add a token (polyhop tokens add NAME), set {TOKEN_VARIABLE} to a long "
            "random text, or serve on 127.0.0.1."
        )
    if 0 < len(token) < MIN_TOKEN_CHARACTERS:
        raise ConfigurationError(f"{TOKEN_VARIABLE} is too short; take at least {MIN_TOKEN_CHARACTERS} characters.")
    return token


@contextmanager
def listening_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to an address, so that a port in use is known before anything is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"Port {port} of {host} cannot be served: {os.strerror(error.errno or 0)}; choose another with --port."
            ) from error
        yield listening


def address(host: str, port: int) -> str:
    """Address for a browser."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run_app(app: "ASGIApp", listening: socket.socket, said: str) -> None:
    """Serves an application until SIGTERM or Ctrl-C, and finishes what runs."""
    import uvicorn

    from polyhop.server.guard import ServerProtocol, allow_files

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listening.listen(BACKLOG)  # asyncio takes one number for this and for how many it accepts at once

    allow_files()
    print_line(f"{said}  (Ctrl-C ends it)")
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=ServerProtocol,
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again once it has ended in order
    Server(config).run(sockets=[listening])
