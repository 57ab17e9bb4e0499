"""An index: its versions, entities, documents and hubs."""

from fastapi import APIRouter

from polyhop.server.pages import Pages


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    del pages
    return APIRouter()
