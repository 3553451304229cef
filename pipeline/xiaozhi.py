"""The Xiaozhi face, built from the configuration."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from openai import AsyncOpenAI

from pipeline.access import key_required
from pipeline.config_schema import Config
from pipeline.config_section import Sentence
from pipeline.xiaozhi_devices import device_file
from services.access.hosts import is_loopback, plain
from services.face import FaceContext
from services.xiaozhi.admin import make_router as make_admin_router
from services.xiaozhi.firmware import FirmwareFolder
from services.xiaozhi.ota import OtaContext
from services.xiaozhi.ota import make_router as make_ota_router
from services.xiaozhi.registry import DeviceRegistry
from services.xiaozhi.roster import Roster
from services.xiaozhi.router import make_router as make_device_router
from services.xiaozhi.settings import XiaozhiSettings
from services.xiaozhi.vision import VisionContext
from services.xiaozhi.vision import make_router as make_vision_router


def make_xiaozhi_routers(
    config: Config,
    context: FaceContext,
    client: Callable[[], AsyncOpenAI | None],
) -> list[APIRouter]:
    """The routes of devices; none where they are not wanted.

    Args:
        config: the whole of it.
        context: what every face is given.
        client: of the language model's server, for photos; gives None while it starts.

    Raises:
        DuplexdError: the file of devices cannot be used.
    """
    xiaozhi = config.xiaozhi
    if not xiaozhi.enabled:
        return []
    registry, roster = make_registry(config), Roster()
    zone = ZoneInfo(xiaozhi.time_zone) if xiaozhi.time_zone else None
    ota = OtaContext(
        registry=registry,
        websocket_url=xiaozhi.websocket_url,
        firmware=FirmwareFolder(xiaozhi.firmware_dir),
        trusted_proxies=xiaozhi.trusted_proxies,
        time_zone=zone,
    )
    vision = VisionContext(
        registry=registry, client=client, model=xiaozhi.vision_model, on_error=context.on_error
    )
    return [
        make_device_router(context, settings_of(config), registry, roster),
        make_admin_router(device_file(config), registry, roster, open_door=_owner_knocks(config)),
        make_ota_router(ota),
        make_vision_router(vision),
    ]


def _owner_knocks(config: Config) -> bool:
    """Whoever passes the daemon's door is its owner, or uses its machine: a proxy brings everybody,
    and where no key is asked for nothing tells them apart.
    """
    return key_required(config.server) or not config.xiaozhi.trusted_proxies


def make_registry(config: Config) -> DeviceRegistry:
    """The devices that may come in.

    Raises:
        DuplexdError: their file cannot be used.
    """
    xiaozhi, server = config.xiaozhi, config.server
    # A proxy of this machine reaches the daemon over loopback, and brings everybody.
    local = is_loopback(plain(server.host)) and not xiaozhi.trusted_proxies
    needed = key_required(server) or not local
    return DeviceRegistry(
        file=device_file(config),
        asks=needed if xiaozhi.auth == "auto" else xiaozhi.auth == "on",
        open_door=local if xiaozhi.enrolment == "auto" else xiaozhi.enrolment == "open",
    )


def settings_of(config: Config) -> XiaozhiSettings:
    """How the face behaves."""
    xiaozhi = config.xiaozhi
    return XiaozhiSettings(
        lead_frames=xiaozhi.lead_frames,
        boards={pattern.lower(): lead for pattern, lead in xiaozhi.boards.items()},
        start_gap_ms=xiaozhi.start_gap_ms,
        stop_margin_ms=xiaozhi.stop_margin_ms,
        wake_words=xiaozhi.wake_words,
        greeting=_texts(xiaozhi.greeting),
        farewell=_texts(xiaozhi.farewell),
        idle_s=xiaozhi.idle_s,
        goodbye=xiaozhi.goodbye,
        failed=_texts(config.messages.failed),
        cancels_echo=xiaozhi.echo == "auto",
    )


def _texts(sentence: Sentence | None) -> dict[str, str]:
    return {} if sentence is None else {"zh": sentence.zh, "en": sentence.en}
