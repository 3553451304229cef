"""Invariants: the key page is one document that fetches nothing, and its policy says so."""

from __future__ import annotations

import base64
import hashlib
import re

from services.web.pages import KEY_PAGE, KEY_PAGE_CSP


def inside(tag: str) -> list[str]:
    return re.findall(rf"<{tag}>(.*?)</{tag}>", KEY_PAGE.decode(), re.DOTALL)


def test_the_policy_allows_exactly_its_style_and_script():
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (text,) = inside(tag)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in KEY_PAGE_CSP
    assert "unsafe" not in KEY_PAGE_CSP


def test_it_fetches_nothing():
    page = KEY_PAGE.decode()
    assert "/static/" not in page
    assert all(link.startswith("data:") for link in re.findall(r'(?:src|href)="([^"]+)"', page))
    assert not re.search(r"\sstyle=|\son\w+=", page)


def test_the_key_can_get_into_no_address():
    page = KEY_PAGE.decode()
    assert 'method="post"' in page
    assert "form-action 'none'" in KEY_PAGE_CSP
