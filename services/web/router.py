"""Mounts the talk page on a FastAPI application.

GET /                  the page
GET /static/NAME       its modules, styles and icon
GET /talk/about.json   what there is to choose from
GET /talk/status.json  why a WebSocket handshake was refused: browsers do not tell a page its status
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from services.web.assets import Asset, load_assets

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self)",
    # kept, and asked for again each time: an update of the daemon is seen at once. In between
    # nobody keeps what a key may be needed for.
    "Cache-Control": "private, no-cache",
}
_FRESH = {"Cache-Control": "no-store"}
#: what a host in a policy may consist of; addresses of IPv6 cannot be named there
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?", re.ASCII)


class Bilingual(BaseModel):
    """A text in both languages of the page."""

    zh: str
    en: str


class PersonaChoice(BaseModel):
    """Somebody the assistant can be.

    Parameters:
        instructions: the system prompt; empty is the daemon's own.
    """

    id: str
    name: Bilingual
    instructions: Bilingual


class About(BaseModel):
    """What the page offers."""

    version: str
    voices: list[str]
    default_voice: str
    personas: list[PersonaChoice]


class Status(BaseModel):
    """Whether a conversation can be opened now.

    Parameters:
        retry_after_s: when to ask again, seconds; None where nothing changes by itself.
        waiting_for: the engines that are not warm yet.
        error: why an engine failed, and what mends it.
    """

    state: Literal["ready", "warming", "failed", "full"]
    retry_after_s: int | None = None
    waiting_for: list[str] = []
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebContext:
    """What the composition root gives the page."""

    about: Callable[[], About]
    status: Callable[[], Status]


def make_router(context: WebContext) -> APIRouter:
    """The page's routes."""
    router = APIRouter()
    assets = load_assets()

    @router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request) -> Response:
        """The talk page."""
        return _reply(assets["index.html"], request)

    @router.api_route("/static/{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        """A file of the page."""
        asset = assets.get(name)
        if asset is None:
            headers = _headers(request)
            return Response("There is no such file\n", 404, headers, media_type="text/plain")
        return _reply(asset, request)

    @router.get("/talk/about.json")
    async def about(request: Request, response: Response) -> About:
        """Voices and personas."""
        response.headers.update({**_headers(request), **_FRESH})
        return context.about()

    @router.get("/talk/status.json")
    async def status(request: Request, response: Response) -> Status:
        """Readiness and room."""
        response.headers.update({**_headers(request), **_FRESH})
        return context.status()

    return router


def _headers(request: Request) -> dict[str, str]:
    return {**_HEADERS, "Content-Security-Policy": _policy(request.headers.get("host", ""))}


def _policy(host: str) -> str:
    """What the page may load and reach: itself. Its host is named for browsers that do not count a
    WebSocket of the same host as 'self'.
    """
    sockets = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    return (
        f"default-src 'self'; connect-src 'self'{sockets}; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


def _reply(asset: Asset, request: Request) -> Response:
    """The file, or word that the browser has it."""
    headers = {**_headers(request), "ETag": asset.etag}
    known = request.headers.get("if-none-match", "")
    if asset.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, headers=headers, media_type=asset.media_type)
