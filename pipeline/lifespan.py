"""What a process serves is warmed while it already answers, tells how far it is, and is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse

from pipeline.service_metrics import ServiceMetrics
from tts_engine.errors import DuplexdError


class Service(Protocol):
    """What is served; one life."""

    @property
    def ready(self) -> bool:
        """It is warm."""
        ...

    @property
    def waiting(self) -> Sequence[str]:
        """What is not warm yet, by name."""
        ...

    @property
    def failure(self) -> DuplexdError | None:
        """Why it cannot be started."""
        ...

    @property
    def metrics(self) -> ServiceMetrics:
        """Its accounts."""
        ...

    async def start(self) -> None:
        """Warms it.

        Raises:
            DuplexdError: it cannot be started; `failure` is the same.
        """
        ...

    async def close(self) -> None:
        """Ends it."""
        ...


def nothing() -> None:
    """Nobody wants to know."""


def warming(
    service: Service, *, on_ready: Callable[[], None], on_failure: Callable[[], None]
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """The lifespan of a web application.

    Args:
        service: is warmed when the application has begun to answer, and closed with it.
        on_ready: called when it is warm.
        on_failure: called when it cannot be started; the server should then end, and its starter
            shows `service.failure`.
    """

    async def warm_up() -> None:
        try:
            await service.start()
            on_ready()
        except DuplexdError:
            on_failure()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(warm_up(), name="warm up")
        try:
            yield
        finally:
            if not task.done():
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await service.close()

    return lifespan


def make_router(service: Service, *, name: str) -> APIRouter:
    """The routes for those who watch the process.

    Args:
        service: what they are told of.
        name: what it calls itself.
    """
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process lives."""
        return {"status": "ok", "service": name}

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        """200 once everything is warm."""
        if service.ready:
            return JSONResponse({"status": "ready"})
        if service.failure is not None:
            return JSONResponse({"status": "failed", "error": str(service.failure)}, 503)
        return JSONResponse(
            {"status": "warming", "waiting_for": list(service.waiting)},
            503,
            headers={"Retry-After": "1"},
        )

    @router.get("/metrics")
    async def metrics() -> Response:
        """Prometheus exposition."""
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4")

    return router
