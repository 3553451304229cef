"""What the browser tests share: a page whose console stays silent."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.browser.chromium import MISSING, programs
from tests.browser.page import Page

#: set where a browser must be there: its absence then fails instead of skipping
REQUIRE = "DUPLEXD_REQUIRE_BROWSER"


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    """Skips all tests of this folder where there is no browser."""
    if programs() is None:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(MISSING)
        pytest.skip(MISSING)


@pytest.fixture(autouse=True)
def silent_console(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test whose `page` wrote an error or a warning that it did not allow."""
    page: Page | None = None
    if "page" in request.fixturenames:
        page = request.getfixturevalue("page")
    yield
    if page is not None:
        assert page.complaints() == []
        page.allowed.clear()
