"""Who owns the daemon lets devices in, over HTTP; the keys of the daemon guard it as all else.

GET    /v1/devices           which may connect, and which wait with their codes
POST   /v1/devices/approve   {"code": "402913", "name": "kitchen"}: the one that shows it may
DELETE /v1/devices/{id}      takes a device's token back
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect

from services.xiaozhi.device_file import NAME_LENGTH, Device, DeviceFile, Waiting
from services.xiaozhi.registry import DeviceRegistry
from services.xiaozhi.roster import Roster
from tts_engine.errors import BadRequest, DuplexdError
from tts_engine.service.api_errors import ApiError
from tts_engine.service.bodies import parse_json, read_json

#: why nobody may
_CLOSED = "Devices are not managed over HTTP behind a proxy without server.require_key"
#: bytes of an approval
_LIMIT = 4096


class Approval(BaseModel):
    """`POST /v1/devices/approve`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    code: Annotated[str, Field(min_length=1, max_length=16)]
    name: Annotated[str, Field(max_length=NAME_LENGTH)] = ""


def make_router(
    file: DeviceFile, registry: DeviceRegistry, roster: Roster, *, open_door: bool
) -> APIRouter:
    """The routes.

    Args:
        file: of the devices; `run.py devices` may change it meanwhile.
        registry: knows whether devices need to be let in.
        roster: which are connected.
        open_door: who comes here may manage them; False: nobody may.
    """
    guards = [] if open_door else [Depends(_nobody)]
    router = APIRouter(prefix="/v1/devices", dependencies=guards)

    @router.get("")
    async def listed() -> Response:
        """Lists devices, the known ones first."""
        try:
            found = await asyncio.to_thread(file.read)
        except DuplexdError as error:
            return ApiError.of(error).response()
        known = [_known(each, roster) for each in found.devices]
        waiting = [
            _waiting(each, replaces=found.device(each.id) is not None)
            for each in found.waiting
            if not each.expired
        ]
        guests = [] if registry.asks else _guests(registry, roster)
        return JSONResponse(
            {"object": "list", "tokens": registry.asks, "data": [*known, *waiting, *guests]},
            headers={"Cache-Control": "no-store"},
        )

    @router.post("/approve")
    async def approve(request: Request) -> Response:
        """Lets a device in."""
        try:
            wanted = parse_json(await read_json(request, limit=_LIMIT), Approval)
            name = wanted.name.strip()
            if not name.isprintable():
                failure = BadRequest("A device's name has printable characters only")
                raise ApiError(failure, 400, param="name")
            device, _ = await asyncio.to_thread(file.approve, wanted.code.strip(), name=name)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except BadRequest as error:
            return ApiError(error, 400, param="code", code="no_such_device").response()
        except (ApiError, DuplexdError) as error:
            return ApiError.of(error).response()
        return JSONResponse(_known(device, roster))

    @router.delete("/{device_id}")
    async def revoke(device_id: str) -> Response:
        """Forgets a device, be it known or waiting."""
        try:
            gone = await asyncio.to_thread(file.revoke, device_id)
        except BadRequest as error:
            return ApiError(error, 404, param="id", code="no_such_device").response()
        except DuplexdError as error:
            return ApiError.of(error).response()
        return JSONResponse({"id": gone, "deleted": True})

    return router


def _nobody() -> None:
    raise HTTPException(403, _CLOSED)


def _known(device: Device, roster: Roster) -> dict[str, Any]:
    return {
        "id": device.id,
        "state": "known",
        "name": device.name,
        "board": device.board,
        "firmware": device.firmware,
        "seen": None if device.seen is None else device.seen.isoformat(),
        "connected": device.id in roster,
    }


def _waiting(waiting: Waiting, *, replaces: bool) -> dict[str, Any]:
    return {
        "id": waiting.id,
        "state": "waiting",
        "code": waiting.code,
        "board": waiting.board,
        "firmware": waiting.firmware,
        "address": waiting.address,
        "since": waiting.since.isoformat(),
        "replaces": replaces,
    }


def _guests(registry: DeviceRegistry, roster: Roster) -> list[dict[str, Any]]:
    """Devices that need no token, and have asked the OTA address."""
    return [
        {
            "id": each.id,
            "state": "guest",
            "board": each.board,
            "firmware": each.firmware,
            "connected": each.id in roster,
        }
        for each in registry.guests
    ]
