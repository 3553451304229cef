"""Invariants: the page needs nothing but this daemon, is never stale, and reaches nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from services.web.assets import FOLDER, load_assets
from services.web.router import About, Bilingual, PersonaChoice, Status, WebContext, make_router

ABOUT = About(
    version="1.2.3",
    voices=["one", "two"],
    default_voice="one",
    personas=[
        PersonaChoice(
            id="everyday",
            name=Bilingual(zh="日常", en="Everyday"),
            instructions=Bilingual(zh="", en=""),
        )
    ],
)
FULL = Status(state="full", retry_after_s=10)
#: attributes by which a page makes a browser fetch something
LINKS = re.compile(r"""(?:src|href)="([^"]+)"|url\(["']?([^"')]+)|(?:import|from) "([^"]+)\"""")


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.include_router(make_router(WebContext(about=lambda: ABOUT, status=lambda: FULL)))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://duplexd") as client:
        yield client


async def test_the_page(http: httpx.AsyncClient):
    page = await http.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "/static/app.js" in page.text
    assert (await http.head("/")).status_code == 200


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("app.js", "text/javascript; charset=utf-8"),
        ("playback-worklet.js", "text/javascript; charset=utf-8"),
        ("base.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("manifest.webmanifest", "application/manifest+json"),
    ],
)
async def test_files_have_the_types_that_browsers_ask_for(
    http: httpx.AsyncClient, name: str, media_type: str
):
    file = await http.get(f"/static/{name}")
    assert (file.status_code, file.headers["content-type"]) == (200, media_type)
    assert file.content == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/none.js", "/talk/about.json"])
async def test_every_answer_is_guarded(http: httpx.AsyncClient, path: str):
    headers = (await http.get(path)).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "connect-src 'self' ws://duplexd wss://duplexd;" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["permissions-policy"] == "microphone=(self)"


@pytest.mark.parametrize(
    "host", ["[::1]:8080", "a; script-src *", "a b", "'unsafe-inline'", "*", ""]
)
async def test_no_host_widens_the_policy(http: httpx.AsyncClient, host: str):
    policy = (await http.get("/", headers={"Host": host})).headers["content-security-policy"]
    assert "connect-src 'self';" in policy
    for directive in ("script-src", "unsafe", "*"):
        assert directive not in policy


@pytest.mark.parametrize("name", ["none.js", "..%2Frouter.py", "%2e%2e%2fpages.py", "__init__.py"])
async def test_nothing_else_is_served(http: httpx.AsyncClient, name: str):
    assert (await http.get(f"/static/{name}")).status_code == 404


async def test_a_browser_asks_each_time_and_is_told_what_it_has(http: httpx.AsyncClient):
    first = await http.get("/static/app.js")
    assert first.headers["cache-control"] == "private, no-cache"
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = await http.get("/static/app.js", headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    stale = await http.get("/static/app.js", headers={"If-None-Match": '"other"'})
    assert stale.status_code == 200
    assert (await http.get("/")).headers["etag"] != tag


async def test_about_and_status_are_asked_for_each_time(http: httpx.AsyncClient):
    about = await http.get("/talk/about.json")
    assert about.json() == ABOUT.model_dump()
    status = await http.get("/talk/status.json")
    assert status.json() == {
        "state": "full",
        "retry_after_s": 10,
        "waiting_for": [],
        "error": None,
    }
    assert about.headers["cache-control"] == status.headers["cache-control"] == "no-store"


def test_everything_that_is_named_is_there_and_nothing_comes_from_elsewhere():
    assets = load_assets()
    for name, asset in assets.items():
        if not name.endswith((".html", ".js", ".css", ".webmanifest")):
            continue
        for found in LINKS.findall(asset.content.decode()):
            target = next(filter(None, found))
            assert "//" not in target, (name, target)
            assert target.rpartition("/")[2] in assets, (name, target)


def test_the_policy_needs_no_exception():
    page = load_assets()["index.html"].content.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert not re.search(r"<script(?![^>]*\ssrc=)", page)
