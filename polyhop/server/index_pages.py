"""An index: its versions and what they hold; its entities, documents and hubs, each page leading to the next."""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from polyhop.api import Index
from polyhop.pages.drawing import DrawnEdge, DrawnNode, EvidenceGraph, draw
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import UnknownIdError
from polyhop.schemas.names import name_tokens
from polyhop.server.api import MAX_JOB, index_row
from polyhop.server.pages import Pages, index_link
from polyhop.server.source_pages import marked_passage, original_file, pages_around, record_of_document, table_rows
from polyhop.versions import diff_versions, version_rows
from polyhop.warehouse.files.versions import read_runs, require_version
from polyhop.warehouse.statements import statement

ROWS = 100  # of a list on one page
MANY = 500  # of lists that are short in practice; chosen: a page stays readable
NEIGHBOURS = 20  # that are drawn; chosen: the drawing fits a window
SHOWN_ENTITIES = 2_000  # of the passages of one page; chosen: 20 of each
FIRST = 40  # entities that most passages mention, to begin with
NAMES = 200  # entities that a search by name shows
DECIDED_BY = {"er": "entity resolution", "manual": "a file of links", "identity": "the passages around it"}


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    router = APIRouter()
    _add_index(router, pages)
    _add_entities(router, pages)
    _add_documents(router, pages)
    _add_hubs(router, pages)
    return router


class _Shown:
    """An open version while a page of it is made: statements of pages.sql, and links that keep the version."""

    def __init__(self, opened: Index, version: int | None) -> None:
        self.opened, self.link = opened, index_link(opened.name, version)
        self._reader = opened.session.published

    def rows(self, name: str, **values: object) -> list[dict[str, Any]]:
        """Rows of a statement."""
        return self._reader.documents(statement("pages", name), values)

    def one(self, name: str, noun: str, key: str) -> dict[str, Any]:
        """The only row of a statement; raises UnknownIdError without one."""
        found = self.rows(name, id=key)
        if not found:
            where = f"Index '{self.opened.name}' has no {noun} '{key[:200]}' in version {self.opened.version}"
            raise UnknownIdError(f"{where}; another version may have it.")
        return found[0]

    def pager(self, rows: list[dict[str, Any]], page: int, *parts: str, **query: object) -> dict[str, Any]:
        """The rows of a page, of which one more was read than it has, and links to the previous and next page."""
        before = self.link(*parts, **query, page=page - 1) if page > 1 else ""
        after = self.link(*parts, **query, page=page + 1) if len(rows) > ROWS else ""
        return {"rows": rows[:ROWS], "previous": before, "next": after}

    def common(self) -> dict[str, Any]:
        """Variables common to all pages of an index."""
        return {"index": self.opened.name, "version": self.opened.version, "link": self.link}


def _slice(page: int) -> dict[str, int]:
    return {"limit": ROWS + 1, "offset": (max(1, min(page, 10**9)) - 1) * ROWS}


async def _made(
    pages: Pages, request: Request, template: str, version: int | None, make: Callable[[_Shown], dict[str, Any]]
) -> Response:
    """A page of what is read from an open version of the index that the address names."""

    def read(opened: Index) -> dict[str, Any]:
        shown = _Shown(opened, version)
        return {**shown.common(), **make(shown)}

    chosen = None if version is None else max(1, min(version, MAX_JOB))
    return pages.page(request, template, **await pages.service.use(request.path_params["index"], read, chosen))


def _add_index(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    @router.get("/indexes")
    async def indexes() -> Response:
        return RedirectResponse("/", 303)

    @router.get("/indexes/{index}")
    async def index(request: Request, index: str, version: int | None = None, page: int = 1) -> Response:
        def read(shown: _Shown) -> dict[str, Any]:
            published = shown.opened.session.published
            manifest = published.manifest
            has_hubs = "hubs" in manifest.counts
            return {
                "manifest": manifest,
                "encoder": shown.opened.session.encoder_model,
                "entities": shown.rows("first_entities", limit=FIRST),
                "quarantine": shown.pager(shown.rows("quarantine", **_slice(page)), page),
                "ledger": [row | {"cost": cost_words(row["cost_usd"])} for row in shown.rows("ledger", limit=MANY)],
                "coverage": shown.rows("hub_coverage", limit=MANY) if has_hubs else [],
                "has_hubs": has_hubs,
            }

        def details() -> dict[str, Any]:
            current, _ = require_version(service.layout, index)
            rows, damaged = version_rows(service.layout, index, current)
            runs = {run.published: run for run in read_runs(service.layout.index(index)) if run.published}
            run = runs.get(version or current)
            return {"versions": rows[::-1], "damaged": damaged, "run": run, "row": index_row(service, index)}

        more = await service.run(details)
        return await _made(pages, request, "index.html.jinja", version, lambda shown: {**more, **read(shown)})

    @router.get("/indexes/{index}/diff")
    async def diff(request: Request, index: str, before: int, after: int) -> Response:
        pair = (max(1, min(before, MAX_JOB)), max(1, min(after, MAX_JOB)))
        found = await service.run(lambda: diff_versions(service.settings, index, pair, None, None))
        return pages.page(request, "index_diff.html.jinja", index=index, found=found)


def _add_entities(router: APIRouter, pages: Pages) -> None:
    @router.get("/indexes/{index}/entities")
    async def entities(request: Request, name: str = "", version: int | None = None) -> Response:
        def read(shown: _Shown) -> dict[str, Any]:
            key = " ".join(name_tokens(name[:1_000]))
            return {"name": name, "found": shown.rows("entities_named", key=key, limit=NAMES) if key else []}

        return await _made(pages, request, "entities.html.jinja", version, read)

    @router.get("/indexes/{index}/entities/{entity}")
    async def entity(
        request: Request, entity: str, version: int | None = None, relations: int = 1, passages: int = 1
    ) -> Response:
        def read(shown: _Shown) -> dict[str, Any]:
            row = shown.one("entity", "entity", entity)
            stated = shown.rows("relations_of_entity", id=entity, **_slice(relations))
            mentions = shown.rows("passages_of_entity", id=entity, **_slice(passages))
            graph = neighbourhood(row, shown.rows("relations_of_entity", id=entity, limit=MANY, offset=0))
            parts = ("entities", entity)
            return {
                "entity": row,
                "names": [
                    row | {"kind": DECIDED_BY.get(row["kind"], row["kind"])}
                    for row in shown.rows("names_of_entity", id=entity, limit=MANY)
                ],
                "relations": shown.pager(stated, relations, *parts),
                "passages": shown.pager(mentions, passages, *parts),
                "drawing": draw(graph) if graph.edges else None,
                "left_out": graph.left_out,
                "hrefs": {node.id: shown.link("entities", node.id) for node in graph.nodes if node.id != entity},
            }

        return await _made(pages, request, "entity.html.jinja", version, read)


def neighbourhood(entity: dict[str, Any], relations: list[dict[str, Any]]) -> EvidenceGraph:
    """An entity and the neighbours with which most was stated, to be drawn."""
    own = entity["entity_id"]
    name_of, weight = {own: entity["name"]}, defaultdict[str, int](int)
    labels: defaultdict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for row in relations:
        is_forward = row["source_id"] == own
        other = row["target_id"] if is_forward else row["source_id"]
        if other == own:
            continue
        name_of[other] = row["target"] if is_forward else row["source"]
        weight[other] += row["count"]
        labels[other][0 if is_forward else 1].append(row["relation"])
    strongest = sorted(weight, key=lambda key: (-weight[key], key))[:NEIGHBOURS]
    nodes = [DrawnNode(own, "entity", entity["name"], float(max(weight.values(), default=1)), is_seed=True)]
    nodes += [DrawnNode(key, "entity", name_of[key], float(weight[key])) for key in strongest]
    edges = [DrawnEdge(own, key, tuple(labels[key][0]), tuple(labels[key][1])) for key in strongest]
    return EvidenceGraph(tuple(nodes), tuple(edges), {own: 0}, len(weight) - len(strongest))


def _add_documents(router: APIRouter, pages: Pages) -> None:
    @router.get("/indexes/{index}/documents/{document}")
    async def document(  # noqa: PLR0913, PLR0917 - the parameters of its address
        request: Request,
        index: str,
        document: str,
        version: int | None = None,
        page: int = 1,
        passage: str = "",
        start: int = 0,
        end: int = 0,
        pdf_page: int = 0,
    ) -> Response:
        """A document; `pdf_page` is the number of a page of its PDF, 0 the one with the marked sentence."""

        def read(opened: Index) -> dict[str, Any]:
            shown = _Shown(opened, version)
            row = shown.one("document", "document", document)
            listed = shown.pager(
                shown.rows("passages_of_document", id=document, **_slice(page)), page, "documents", document
            )
            entities: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
            ids = [one["passage_id"] for one in listed["rows"]]
            for one in shown.rows("entities_of_passages", ids=ids, limit=SHOWN_ENTITIES):
                entities[one["passage_id"]].append(one)
            mark = marked_passage(opened, passage, start, end) if passage in ids else None
            tables = table_rows(mark.text, mark.start, mark.end) if mark is not None and mark.is_table else []
            context = {"document": row, "passages": listed, "entities": entities, "mark": mark, "table": tables}
            context["metadata"] = json.loads(row["metadata_json"] or "{}")
            return {**shown.common(), **context, "record": record_of_document(opened, document)}

        chosen = None if version is None else max(1, min(version, MAX_JOB))
        found = await pages.service.use(index, read, chosen)
        original = await original_file(pages.service, index, found["record"])
        marks = {"passage": passage, "start": start, "end": end} if found["mark"] else {}
        is_pdf = original.path is not None and original.path.suffix.lower() == ".pdf"
        drawn = _pdf_links(found, document, marks, pdf_page) if is_pdf else {"picture": "", "pdf_pages": {}}
        more = {"original": original, "marked_id": passage, "pdf_page": pdf_page, **drawn}
        return pages.page(request, "document.html.jinja", **found, **more)

    @router.get("/indexes/{index}/passages/{passage:path}")
    async def passage(index: str, passage: str, version: int | None = None, start: int = 0, end: int = 0) -> Response:
        def read(opened: Index) -> str:
            shown = _Shown(opened, version)
            row = shown.one("document_of_passage", "passage", passage)
            page = row["ordinal"] // ROWS + 1
            query: dict[str, object] = {"page": page} if page > 1 else {}
            query |= {"passage": passage, "start": start, "end": end} if end > start else {}
            anchor = "source" if end > start else quote(passage, safe="")
            return shown.link("documents", row["document_id"], **query) + f"#{anchor}"

        return RedirectResponse(await pages.service.use(index, read, version), 303)

    @router.get("/indexes/{index}/words")
    async def words(request: Request, words: str = "", version: int | None = None) -> Response:
        def read(shown: _Shown) -> dict[str, Any]:
            ids = shown.opened.search_text(words[:1_000], limit=ROWS) if words.strip() else []
            reader = shown.opened.session.published
            rows = reader.passages([reader.number_of_passage[one] for one in ids])
            return {"words": words, "rows": [{"id": key, "title": title, "text": text} for key, title, text in rows]}

        return await _made(pages, request, "words.html.jinja", version, read)


def _pdf_links(found: dict[str, Any], document: str, marks: dict[str, Any], chosen: int) -> dict[str, Any]:
    """Address of the picture of a PDF's page ("": none), and addresses of the document's page for the pages around it.

    The page is the chosen one, or, if that is 0, the page of the marked sentence.
    """
    link = found["link"]
    marked = found["mark"].pages if found["mark"] else ()
    picture = link("picture", **marks) if marked else ""
    if chosen:
        picture = link("pdf-pages", str(chosen), document=document)
    numbers = pages_around(found["metadata"].get("pages"), (chosen,) if chosen else marked or (0,))
    around = {number: link("documents", document, **marks, pdf_page=number) for number in numbers}
    return {"picture": picture, "pdf_pages": around}


def _add_hubs(router: APIRouter, pages: Pages) -> None:
    def require_hubs(shown: _Shown) -> None:
        if "hubs" not in shown.opened.session.published.manifest.counts:
            raise UnknownIdError(f"Version {shown.opened.version} of index '{shown.opened.name}' has no hubs.")

    @router.get("/indexes/{index}/hubs")
    async def hubs(request: Request, version: int | None = None, page: int = 1) -> Response:
        def read(shown: _Shown) -> dict[str, Any]:
            require_hubs(shown)
            return {"hubs": shown.pager(shown.rows("hubs", **_slice(page)), page, "hubs")}

        return await _made(pages, request, "hubs.html.jinja", version, read)

    @router.get("/indexes/{index}/hubs/{hub}")
    async def hub(request: Request, hub: str, version: int | None = None, page: int = 1) -> Response:
        def read(shown: _Shown) -> dict[str, Any]:
            require_hubs(shown)
            row = shown.one("hub", "hub", hub)
            return {
                "hub": row,
                "paths": shown.pager(shown.rows("paths_of_hub", id=hub, **_slice(page)), page, "hubs", hub),
            }

        return await _made(pages, request, "hub.html.jinja", version, read)
