"""Settings to open stores and models: the only place that constructs adapters."""

from functools import lru_cache
from pathlib import Path

from threadpoolctl import threadpool_limits

from schemas.settings import Settings
from warehouse.cache.vectors import VectorCache
from warehouse.files.disk import writing
from warehouse.files.layout import Layout
from warehouse.index_reader import PublishedIndex
from warehouse.models.cached import CachedEncoder
from warehouse.models.encoder import LocalEncoder
from warehouse.queue.dialects import sqlite_url
from warehouse.queue.queue import QuestionQueue, open_queue


def open_encoder(settings: Settings) -> CachedEncoder:
    """The configured encoder behind the cache of vectors; one per process and configuration."""
    encoder = settings.encoder
    return _encoder(Layout(settings.root), encoder.threads or None, encoder.batch_size)


@lru_cache(maxsize=2)
def _encoder(layout: Layout, threads: int | None, batch_size: int) -> CachedEncoder:
    with writing("caches", layout.caches):
        layout.model_cache.mkdir(parents=True, exist_ok=True)
    model = LocalEncoder(layout.model_cache, threads=threads, batch_size=batch_size)
    return CachedEncoder(model, VectorCache(layout.vector_cache))


def open_questions(settings: Settings) -> QuestionQueue:
    """The question queue: the configured database, or queue.sqlite under the root.

    Raises:
        ConfigurationError: If the url is malformed or its driver is not installed.
        StoreError: If the database cannot be used.
    """
    path = Layout(settings.root).queue
    if not settings.queue.url:
        with writing("the question queue", path):
            path.parent.mkdir(parents=True, exist_ok=True)
    return open_queue(
        settings.queue.url or sqlite_url(path),
        ageing_seconds=settings.queue.ageing_seconds,
        max_depth=settings.queue.max_depth,
    )


@lru_cache(maxsize=1)
def _use_one_blas_thread() -> None:
    """For the whole process: rankings get the same bits on any number of cores, and workers don't fight for cores.

    The products of one question are bound by memory, a second thread gains little.
    """
    threadpool_limits(1, user_api="blas")


def open_published(root: Path, name: str, version: int | None = None, rerank: str = "") -> PublishedIndex:
    """A published version of an index, held until closed; `rerank` is settings.models.rerank.

    Raises:
        UnknownIndexError: If nothing was published under that name.
        UnknownIdError: If that version does not exist.
    """
    _use_one_blas_thread()
    return PublishedIndex(Layout(root), name, version, rerank)
