"""The section `xiaozhi`."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from pipeline.config_section import Section, Sentence

Lead = Annotated[int, Field(ge=1, le=10)]


class Xiaozhi(Section):
    """Xiaozhi (小智) devices: see docs/xiaozhi.md."""

    enabled: bool = Field(default=True, description="Devices may connect.")
    websocket_url: str | None = Field(
        default=None,
        description="Where devices connect, ws://... or wss://..., ending in /xiaozhi/v1/; null: "
        "at the address by which they have asked for it.",
    )
    auth: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Devices need a token, which they get from the OTA address; auto: where others "
        "than this machine can reach the daemon, be it by a proxy.",
    )
    enrolment: Literal["auto", "open", "code"] = Field(
        default="auto",
        description="open: every device that asks gets a token. code: a new one shows a code, and "
        "waits for `run.py devices approve CODE`. auto: code where others can reach the daemon.",
    )
    devices_file: Path | None = Field(
        default=None,
        strict=False,
        description="Where devices are kept, relative to the configuration file; null is a file in "
        "the user's data folder.",
    )
    lead_frames: Lead = Field(
        default=2,
        description="Frames of 60 ms that a device gets ahead of what it plays. More is a reserve "
        "against a bad network, and is heard after an interruption.",
    )
    boards: dict[str, Lead] = Field(
        default_factory=dict,
        description="The same for some boards, by a pattern of their name: {'*c3*': 3}.",
    )
    start_gap_ms: int = Field(
        default=100,
        ge=0,
        le=1_000,
        description="Least time between `tts start` and the first frame: a device empties its "
        "queue meanwhile.",
    )
    stop_margin_ms: int = Field(
        default=150,
        ge=0,
        le=2_000,
        description="From the end of playback to `tts stop`: old firmware drops what it has not "
        "played by then.",
    )
    wake_words: tuple[str, ...] = Field(
        default=("你好小智", "小智", "嗨小智", "你好小鑫", "Hi ESP", "Hi 乐鑫", "Hi Jason"),
        strict=False,
        description="What wakes devices. Any other text that one says it has detected is answered.",
    )
    greeting: Sentence | None = Field(
        default=None, description="What is said when a wake word was heard; null: nothing."
    )
    farewell: Sentence | None = Field(
        default=Sentence(
            zh="我先休息了，有事再叫我。", en="I'll be resting. Call me when you need me."
        ),
        description="What is said before a silent conversation is closed; null: nothing.",
    )
    goodbye: bool = Field(
        default=True,
        description="The language model is offered a function that closes the conversation when "
        "the user says goodbye: after its own words, or after the farewell.",
    )
    idle_s: float = Field(
        default=120.0,
        ge=0,
        le=86_400,
        description="Silence after which it is closed; 0 is never.",
    )
    echo: Literal["auto", "off"] = Field(
        default="auto",
        description="auto: cancel the echo of devices that ask for it; off: never. Words that are "
        "an echo of the answer are told from speech either way.",
    )
    vision_model: str | None = Field(
        default=None,
        min_length=1,
        description="Model of the language model's server that describes photos of a device's "
        "camera; null: none.",
    )
    firmware_dir: Path | None = Field(
        default=None,
        strict=False,
        description="Folder of firmware that devices may load, as BOARD/VERSION.bin, relative to "
        "the configuration file; null: none.",
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Addresses or networks of proxies whose X-Forwarded-Proto and -Host count. "
        "With any, others than this machine can reach the daemon.",
    )
    time_zone: str | None = Field(
        default=None,
        description="What devices set their clocks to, as Asia/Shanghai; null: this machine's.",
    )

    @field_validator("websocket_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("ws://", "wss://")):
            raise ValueError("must start with ws:// or wss://")
        if value is not None and "[" in value:
            raise ValueError("must name a host or an IPv4 address: devices cannot read IPv6 ones")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            try:
                ip_network(each, strict=False)
            except ValueError:
                raise ValueError(f"{each!r} is no address or network") from None
        return value

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                raise ValueError(
                    f"{value!r} is no time zone; write one like Asia/Shanghai"
                ) from None
        return value
