"""The entity graph on its canvas and as a list, and edits of entities: shown, saved, undone and applied."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_process import Browser
from small_indexes import Call, publish, record
from starlette.testclient import TestClient

from polyhop.schemas.settings import Settings
from polyhop.server.app import make_app
from polyhop.server.guard import csrf_token
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.user_files import read_edits

PAGES = [
    record("p1", "Ostley Bridge", "Ostley Bridge was designed by Edith Carrow. Edith Carrow lived in Harrow."),
    record("p2", "Edith Carrow", "Edith Carrow was born in Harrow. She was married to Tom Lenn."),
    record("p3", "Tom Lenn", "Tom Lenn was born in Marle. Tom Lenn worked for Hale Works."),
]
GRAPH = "document.getElementById('graph')._cyreg.cy"
IS_DRAWN = ["wait", "#graph-legend .badge"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("graph"), PAGES, strategies="bm25,bridge")


@pytest.fixture(scope="module")
def client(root: Path) -> Iterator[TestClient]:
    app = make_app(Settings(root=root), allows_changes=True)
    with TestClient(app, "http://127.0.0.1", headers={"accept": "text/html"}, follow_redirects=False) as opened:
        yield opened


def edited(client: TestClient, kind: str, name: str, other: str = "", **more: str) -> Any:
    data = {"csrf": csrf_token(), "kind": kind, "name": name, "other": other, **more}
    return client.post("/indexes/towns/edits", data=data)


def test_a_graph_begins_with_the_most_mentioned_entities_and_grows_by_neighbours(client: TestClient) -> None:
    whole = client.get("/indexes/towns/graph/data").json()
    names = {row["entity_id"]: row["name"] for row in whole["nodes"]}
    assert {"Ostley Bridge", "Edith Carrow", "Harrow", "Tom Lenn", "Marle"} <= set(names.values())
    tom = next(key for key, name in names.items() if name == "Tom Lenn")
    near = client.get("/indexes/towns/graph/data", params={"entity": tom}).json()
    assert {"Tom Lenn", "Edith Carrow", "Marle"} <= {row["name"] for row in near["nodes"]}
    assert "Ostley Bridge" not in {row["name"] for row in near["nodes"]}
    assert all({edge["source_id"], edge["target_id"]} <= names.keys() for edge in near["edges"])
    assert client.get("/indexes/towns/graph", params={"entity": "nothing"}).status_code == 404


def test_the_canvas_draws_finds_and_expands(serve: Any, root: Path, browser: Browser) -> None:
    url = serve(root).url
    steps = [
        IS_DRAWN,
        ["fill", "#graph-find", "Tom Lenn"],
        ["press", "#graph-find", "Enter"],
        ["click", "#graph-chosen button"],
    ]
    shown = {"nodes": f"{GRAPH}.nodes().length", "chosen": f"{GRAPH}.$(':selected').data('name')"}
    shown["colours"] = f"new Set({GRAPH}.nodes().map(n => n.data('colour'))).size"
    look = browser.look(f"{url}/indexes/towns/graph", evaluate=shown, steps=steps)
    assert (look.values["nodes"] >= 5, look.values["chosen"], look.values["colours"] > 1) == (True, "Tom Lenn", True)
    assert look.messages == []


def test_names_on_the_canvas_of_a_phone_are_large_enough_to_read(serve: Any, root: Path, browser: Browser) -> None:
    named = f"{GRAPH}.nodes().filter(n => n.style('label')).map(n => parseFloat(n.style('font-size')) * {GRAPH}.zoom())"
    url = f"{serve(root).url}/indexes/towns/graph"
    look = browser.look(url, evaluate={"sizes": named}, steps=[IS_DRAWN], width=390)
    assert len(look.values["sizes"]) >= 3
    assert [round(size) for size in look.values["sizes"]] == [11] * len(look.values["sizes"])


def test_without_scripts_the_graph_is_a_list_of_links(serve: Any, root: Path, browser: Browser) -> None:
    look = browser.look(f"{serve(root).url}/indexes/towns/graph", has_scripts=False)
    assert all(name in look.text for name in ("Ostley Bridge", "Edith Carrow", "Harrow"))
    assert "Find on the canvas" not in look.text


def test_an_edit_is_shown_before_it_is_saved_and_can_be_undone(client: TestClient, root: Path) -> None:
    folder = Layout(root).index("towns")
    shown = edited(client, "merge", "Tom Lenn", "Edith Carrow")
    assert "This will be saved, and applied by the next run" in shown.text
    assert read_edits(folder) == ()
    assert edited(client, "merge", "Tom Lenn", "Edith Carrow", save="yes").status_code == 303
    [edit] = read_edits(folder)
    assert (edit.kind, edit.key, edit.other) == ("merge", "tom lenn", "edith carrow")
    assert "merge &#39;tom lenn&#39; with &#39;edith carrow&#39;" in client.get("/indexes/towns/edits").text
    undone = client.post("/indexes/towns/edits/undo", data={"csrf": csrf_token(), "number": "1"})
    assert (undone.status_code, read_edits(folder)) == (303, ())


def test_the_next_run_applies_what_a_page_saved(tmp_path: Path, said: Call) -> None:
    root = publish(tmp_path, PAGES)
    with TestClient(make_app(Settings(root=root), allows_changes=True), "http://127.0.0.1") as client:
        edited(client, "rename", "Hale Works", "Hale Steelworks", save="yes")
        assert said("index --index towns --root", root)[0] == 0
        names = {row["name"] for row in client.get("/indexes/towns/graph/data").json()["nodes"]}
    assert ("Hale Steelworks" in names, "Hale Works" in names) == (True, False)


@pytest.mark.parametrize(
    ("kind", "name", "other", "sentence"),
    [
        ("merge", "Nobody Known", "Tom Lenn", "No passage of 'towns' mentions 'Nobody Known'"),
        ("merge", "Tom Lenn", "Tom Lenn", "are one entity already"),
        ("retype", "Tom Lenn", "GALAXY", "'GALAXY' is not a type"),
        ("rename", "Tom Lenn", "Edith Carrow", "is the name of another entity"),
        ("explode", "Tom Lenn", "x", "Choose an edit"),
        ("merge", "Tom Lenn", "", "Choose an edit"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why(
    client: TestClient, root: Path, kind: str, name: str, other: str, sentence: str
) -> None:
    reply = edited(client, kind, name, other, save="yes")
    assert reply.status_code == 422
    assert re.sub("&#39;", "'", sentence) in re.sub("&#39;", "'", reply.text)
    assert read_edits(Layout(root).index("towns")) == ()


def test_edits_need_a_server_that_allows_changes_and_our_form(client: TestClient, root: Path) -> None:
    assert edited(client, "delete", "Tom Lenn", save="yes", csrf="x").status_code == 403
    with TestClient(make_app(Settings(root=root)), "http://127.0.0.1") as reading:
        assert edited(reading, "delete", "Tom Lenn", save="yes").status_code == 403
        assert "<form" not in reading.get("/indexes/towns/edits").text.split("<main")[1]
    assert read_edits(Layout(root).index("towns")) == ()
