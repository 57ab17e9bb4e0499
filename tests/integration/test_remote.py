"""Versions pushed to and pulled from a real S3 server, through cuts, kills, damage and races."""

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import pytest
from moto.server import ThreadedMotoServer
from small_indexes import indexed, wait_for, write_rows

from polyhop.schemas.errors import DamagedStoreError, StoreConflictError, StoreError, StoreUnavailableError
from polyhop.schemas.settings import IndexSettings, Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.remote import Pointer, Remote, pull_version, push_version
from polyhop.warehouse.files.versions import current_version, read_manifest, require_version
from polyhop.warehouse.index_reader import PublishedIndex, find_damage
from polyhop.worker.loop import Follower

RECORDS = [{"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n}."} for n in range(9)]
# botocore and s3fs leave sockets to the garbage collector
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.xdist_group("remote")]
NAME, SECRET = "lakes", "planted-secret-0123456789"


def settings_of(root: Path) -> Settings:
    """An index with vectors and few files besides: each is some requests."""
    return Settings(root=root, strategies=("dense",))


class Relay:
    """A TCP relay before the server: it can cut connections after some bytes of replies, or halt them there."""

    def __init__(self, port: int) -> None:
        self._server, self._port = socket.create_server(("127.0.0.1", 0)), port
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.upload, self.download = -1, -1  # bytes that still pass; -1: all
        self.is_halting, self.is_reached = False, threading.Event()
        self.resumed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def limit(self, *, upload: int = -1, download: int = -1, is_halting: bool = False) -> None:
        self.upload, self.download, self.is_halting = upload, download, is_halting
        self.is_reached.clear()
        self.resumed.clear()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._relay, args=(self._server.accept()[0],), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._port)) as server:
            back = threading.Thread(target=self._pass, args=("download", server, client), daemon=True)
            back.start()
            self._pass("upload", client, server)
            back.join()

    def _pass(self, way: str, source: socket.socket, target: socket.socket) -> None:
        try:
            while content := source.recv(65_536):
                left = getattr(self, way)
                if left >= 0:
                    setattr(self, way, max(0, left - len(content)))
                    if left < len(content):
                        self.is_reached.set()
                        if not self.is_halting:
                            break
                        self.resumed.wait(60)
                        break
                target.sendall(content)
        except OSError:
            pass
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    port: int = running.get_host_and_port()[1]
    yield port
    running.stop()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    indexed(settings_of(folder / "root"), write_rows(folder / "c.jsonl", RECORDS), NAME)
    return folder


class Store:
    """A bucket of its own, reached through a relay, and the root of the writer."""

    def __init__(self, port: int, made: Path, folder: Path) -> None:
        self.relay, self.bucket = Relay(port), f"b{uuid4().hex[:12]}"
        self.client: Any = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")
        self.client.create_bucket(Bucket=self.bucket)
        self.url, self.folder = f"s3://{self.bucket}/team", folder
        subprocess.run(["cp", "-r", str(made / "root"), str(folder / "a")], check=True)
        self.writer, self.reader = Layout(folder / "a"), Layout(folder / "b")

    def push(self, *, again: bool = False) -> Any:
        return push_version(self.writer, NAME, self.url, again=again)

    def pull(self) -> Any:
        return pull_version(self.reader, NAME, self.url, keep=3)

    def publish_more(self, count: int = 1) -> None:
        more = [{"id": f"q{n}", "title": f"Hill {n}", "text": f"Hill {n} lies in Land {n}."} for n in range(count)]
        source = write_rows(self.folder / "more.jsonl", more)
        indexed(settings_of(self.folder / "a"), source, NAME, source_name="more")

    def objects(self) -> Mapping[str, int]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}

    def is_sound(self) -> bool:
        """Whether the reader's current version is the writer's, file by file as it was published."""
        number, folder = require_version(self.reader, NAME)
        assert number == current_version(self.writer.index(NAME))
        damage = find_damage(self.reader.index(NAME), folder, read_manifest(folder))
        assert not damage.sentences()
        opened = PublishedIndex(self.reader, NAME)
        opened.close()
        return len(opened.passage_ids) >= len(RECORDS)


@pytest.fixture
def store(server: int, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name, value in (("ACCESS_KEY_ID", "someone"), ("SECRET_ACCESS_KEY", SECRET), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    made_store = Store(server, made, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", made_store.relay.address)
    yield made_store
    made_store.relay.resumed.set()
    made_store.relay.close()


def test_only_missing_files_travel_and_a_pull_is_the_version(store: Store) -> None:
    with pytest.raises(StoreError, match="has no version yet; push one"):
        store.pull()
    first = store.push()
    assert (first.version, store.push().files) == (1, 0)
    assert store.pull().version == 1
    assert store.is_sound()
    assert store.pull().files == 0
    store.publish_more()
    before = store.objects()
    second = store.push()
    assert len(store.objects()) - len(before) == second.files + 1  # its list
    assert all(store.objects()[key] == size for key, size in before.items() if not key.endswith("CURRENT"))
    assert store.pull().version == 2
    assert store.is_sound()
    assert sorted(path.name for path in store.reader.index(NAME).path.iterdir() if path.name == "pulled") == []


def test_an_older_version_and_a_moved_pointer_are_refused(store: Store) -> None:
    old = store.folder / "old"
    subprocess.run(["cp", "-r", str(store.folder / "a"), str(old)], check=True)
    store.publish_more()
    store.push()
    with pytest.raises(StoreError, match="newer than version 1"):
        push_version(Layout(old), NAME, store.url)
    remote = Remote(store.url, NAME)
    before = remote.pointer()
    assert before is not None
    remote.point(3, before.listing, before)  # another push, meanwhile
    for stale in (before, None):
        with pytest.raises(StoreConflictError, match="Another push changed"):
            remote.point(9, before.listing, stale)
    now = remote.pointer()
    assert (now and now.version) == 3


@pytest.mark.rare
def test_another_history_is_neither_pushed_over_nor_pulled_into(store: Store) -> None:
    store.push()
    indexed(settings_of(store.folder / "b"), write_rows(store.folder / "d.jsonl", RECORDS[:4]), NAME)
    with pytest.raises(StoreError, match="has another version 1"):
        push_version(store.reader, NAME, store.url)
    with pytest.raises(StoreError, match="local versions"):
        store.pull()


@pytest.mark.rare
@pytest.mark.parametrize("way", ["upload", "download"])
def test_a_cut_connection_is_a_sentence_and_the_next_try_goes_on(store: Store, way: str) -> None:
    if way == "download":
        store.push()
    up, down = (200_000, -1) if way == "upload" else (-1, 200_000)
    store.relay.limit(upload=up, download=down)
    with pytest.raises(StoreUnavailableError, match="run the same command again") as caught:
        store.push() if way == "upload" else store.pull()
    assert SECRET not in str(caught.value)
    assert any(key.endswith("CURRENT") for key in store.objects()) == (way == "download")
    assert current_version(store.reader.index(NAME)) is None
    store.relay.limit()
    store.push()
    store.pull()
    assert store.is_sound()


@pytest.mark.rare
@pytest.mark.parametrize("move", ["push", "pull"])
def test_a_kill_in_the_middle_leaves_the_version_before_and_the_next_try_goes_on(store: Store, move: str) -> None:
    store.push()
    store.pull()
    store.publish_more()
    if move == "pull":
        store.push()
    up, down = (100_000, -1) if move == "push" else (-1, 100_000)
    store.relay.limit(upload=up, download=down, is_halting=True)
    root = store.folder / ("a" if move == "push" else "b")
    command = [sys.executable, "-m", "polyhop.cli", "versions", move, store.url, "--index", NAME, "--root", str(root)]
    process = subprocess.Popen(command, env=os.environ.copy(), stderr=subprocess.PIPE)
    assert store.relay.is_reached.wait(60), process.communicate(timeout=5)
    if move == "push":  # a pull during a push has the version before
        pointer = store.client.get_object(Bucket=store.bucket, Key=f"team/{NAME}/CURRENT")["Body"].read()
        assert json.loads(pointer)["version"] == 1
    process.kill()
    process.communicate()
    store.relay.resumed.set()
    store.relay.limit()
    assert current_version(store.reader.index(NAME)) == 1
    store.push()
    assert store.pull().version == 2
    assert store.is_sound()


@pytest.mark.rare
def test_a_flipped_byte_is_found_and_a_push_replaces_what_was_deleted(store: Store) -> None:
    tables = store.writer.index(NAME).version(1).tables
    whole = tables.read_bytes()
    tables.write_bytes(whole[:-1] + b"x")
    with pytest.raises(DamagedStoreError):
        store.push()
    assert not any(key.endswith("CURRENT") for key in store.objects())
    tables.write_bytes(whole)
    store.push()
    key = max((key for key in store.objects() if "/files/" in key), key=lambda each: store.objects()[each])
    content = bytearray(store.client.get_object(Bucket=store.bucket, Key=key)["Body"].read())
    content[len(content) // 2] ^= 1
    store.client.put_object(Bucket=store.bucket, Key=key, Body=bytes(content))
    with pytest.raises(StoreError, match=f"{key}.* is damaged"):
        store.pull()
    assert current_version(store.reader.index(NAME)) is None
    store.client.delete_object(Bucket=store.bucket, Key=key)
    with pytest.raises(StoreError, match="is missing"):
        store.pull()
    assert [store.push(again=again).files for again in (False, True)] == [0, 1]
    store.pull()
    assert store.is_sound()


@pytest.mark.rare
def test_a_worker_follows_and_says_a_failed_look_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.push()
    store.pull()
    store.publish_more()
    follower = Follower(Settings(root=store.reader.root, index=IndexSettings(remote=store.url)))
    store.relay.limit(upload=0)
    for _ in range(2):
        follower._next = 0.0
        follower.look()
        assert follower._thread is not None
        follower._thread.join(90)
    failed = [one for one in caplog.records if "look for newer" in one.getMessage()]
    assert len(failed) == 1
    assert SECRET not in str(failed[0].__dict__)
    store.relay.limit()
    store.push()
    follower._next = 0.0
    follower.look()
    wait_for(lambda: current_version(store.reader.index(NAME)) == 2)
    assert store.is_sound()
    assert isinstance(Remote(store.url, NAME).pointer(), Pointer)
