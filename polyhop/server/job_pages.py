"""Jobs: how far they are, what failed, their results page by page, and questions from a file."""

from fastapi import APIRouter

from polyhop.server.pages import Pages


def make_router(pages: Pages) -> APIRouter:
    """The routes of these pages."""
    del pages
    return APIRouter()
