"""The entity graph on a canvas, and edits of its entities: checked, shown before they are saved, and undone."""

from typing import Any, get_args

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from polyhop.api import Index
from polyhop.entity_edits import add_edit, checked_edit, edit_words, known_types, undo_edit
from polyhop.schemas.errors import ConfigurationError, PolyhopError, UnknownIdError
from polyhop.schemas.records import Kind
from polyhop.server.api import ContractResponse
from polyhop.server.pages import Pages, index_link, require_form
from polyhop.server.problems import status_of
from polyhop.warehouse.files.versions import require_version
from polyhop.warehouse.statements import statement
from polyhop.warehouse.user_files import read_edits

FIRST = 60  # entities that a graph begins with; chosen: their names do not cover each other
MORE = 25  # neighbours that are added for an entity
EDGES = 600  # drawn at most
KINDS: tuple[str, ...] = get_args(Kind)


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    router = APIRouter()
    _add_graph(router, pages)
    _add_edits(router, pages)
    return router


def _add_graph(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    @router.get("/indexes/{index}/graph")
    async def graph(request: Request, index: str, entity: str = "") -> Response:
        found = await service.use(index, lambda opened: graph_rows(opened, entity))
        shown = {"index": index, "entity": entity, "link": index_link(index, None)}
        return pages.page(request, "graph.html.jinja", **shown, **found)

    @router.get("/indexes/{index}/graph/data")
    async def data(index: str, entity: str = "") -> Response:
        """Returns what the canvas draws: the entities in most passages, or one with its neighbours."""
        return ContractResponse(await service.use(index, lambda opened: graph_rows(opened, entity)))


def graph_rows(opened: Index, entity: str) -> dict[str, Any]:
    """{version, nodes[{entity_id, name, type, df}], edges[{source_id, target_id, labels, stated}]}.

    The nodes are an entity and the neighbours of which most was stated; without one, those in most passages.
    """

    def rows(name: str, **values: object) -> list[dict[str, Any]]:
        return opened.session.published.documents(statement("pages", name), values)

    if entity:
        near = [row["entity_id"] for row in rows("neighbours_of_entity", id=entity, limit=MORE)]
        nodes = rows("entities_of_ids", ids=[entity, *near])
        if not any(row["entity_id"] == entity for row in nodes):
            raise UnknownIdError(f"Index '{opened.name}' has no entity '{entity[:200]}' in version {opened.version}.")
    else:
        nodes = rows("entities_of_graph", limit=FIRST)
    edges = rows("relations_among", ids=[row["entity_id"] for row in nodes], limit=EDGES)
    return {"version": opened.version, "nodes": nodes, "edges": edges}


def _add_edits(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    async def shown(request: Request, index: str, status: int = 200, **more: Any) -> Response:
        def read() -> dict[str, Any]:
            require_version(service.layout, index)
            edits = [edit_words(edit) for edit in read_edits(service.layout.index(index))]
            return {"edits": edits, "types": known_types(service.layout, index)}

        form = {"kind": "merge", "name": request.query_params.get("name", ""), "other": ""}
        given = {"index": index, "kinds": KINDS, "form": form, "preview": "", "sentence": ""} | more
        given |= {"link": index_link(index, None), **await service.run(read)}
        return pages.page(request, "edits.html.jinja", status, **given)

    @router.get("/indexes/{index}/edits")
    async def edits(request: Request, index: str) -> Response:
        return await shown(request, index)

    @router.post("/indexes/{index}/edits")
    async def edit(request: Request, index: str) -> Response:
        """Shows what an edit does, and saves it when the form says so."""
        given = await request.form()
        require_form(service, given)
        form = {name: str(given.get(name, "")).strip()[:1_000] for name in ("kind", "name", "other")}
        try:
            kind: Any = form["kind"]
            if kind not in KINDS or not form["name"] or not (form["other"] or kind == "delete"):
                raise ConfigurationError("Choose an edit, and give the name and what it is changed to.")
            names = [form["name"], *([] if kind == "delete" else [form["other"]])]
            if given.get("save"):
                await service.run(lambda: add_edit(service.layout, index, kind, names))
                return RedirectResponse(index_link(index, None)("edits"), 303)
            found = await service.run(lambda: checked_edit(service.layout, index, kind, names))
        except PolyhopError as error:
            return await shown(request, index, status_of(error), form=form, sentence=str(error))
        return await shown(request, index, form=form, preview=edit_words(found))

    @router.post("/indexes/{index}/edits/undo")
    async def undo(request: Request, index: str) -> Response:
        given = await request.form()
        require_form(service, given)
        await service.run(lambda: undo_edit(service.layout.index(index), str(given.get("number", ""))))
        return RedirectResponse(index_link(index, None)("edits"), 303)
