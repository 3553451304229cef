"""Serves the certificate that a phone is to trust."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from services.access.public import CA_PATH


def make_router(authority: Path) -> APIRouter:
    """`GET /duplexd-ca.crt`.

    Args:
        authority: its certificate, in PEM. It is public: that it came over an untrusted way is
            what its fingerprint is for.
    """
    router = APIRouter()

    @router.get(f"/{CA_PATH}")
    async def certificate() -> FileResponse:
        """For a phone to install."""
        return FileResponse(authority, media_type="application/x-x509-ca-cert", filename=CA_PATH)

    return router
