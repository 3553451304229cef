# pyright: strict
"""How the benches reach the daemon: by which of its protocols, and as whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipeline.bench.rig import Server
from pipeline.bench.wire import RealtimeWire, Wire
from pipeline.bench.xiaozhi_wire import DOWNLINK_MS, FRAMES_MS, PATH, SETS, Codec, XiaozhiWire
from pipeline.talk.endpoint import Endpoint
from services.xiaozhi.events import Mode
from tts_engine.errors import BadRequest

if TYPE_CHECKING:
    from pipeline.config import Config

Name = Literal["realtime", "xiaozhi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """A protocol of the daemon's, and how its clients use it.

    Parameters:
        name: the protocol.
        frame_ms: length of the microphone's frames.
        mode: in which devices listen.
        codec: of devices.

    Raises:
        BadRequest: devices have no such frames.
    """

    name: Name = "realtime"
    frame_ms: int = 20
    mode: Mode = "realtime"
    codec: Codec = "opus"

    def __post_init__(self) -> None:
        if self.name == "xiaozhi" and self.frame_ms not in FRAMES_MS:
            raise BadRequest(
                f"No device sends frames of {self.frame_ms} ms",
                mend=f"Take one of {', '.join(map(str, FRAMES_MS))}",
            )

    @property
    def sets(self) -> dict[str, str]:
        """Keys of the daemon's configuration."""
        return dict(SETS) if self.name == "xiaozhi" else {}

    def endpoint(self, server: Server, client: str) -> Endpoint:
        """Where a client is served.

        Args:
            server: the daemon.
            client: its name: letters, digits, `-`. Of two devices with one name the second ends
                the first one's conversation.
        """
        return server.endpoint if self.name == "realtime" else server.at(self.path(client))

    def path(self, client: str) -> str:
        """The path of that, with its query."""
        return "/v1/realtime" if self.name == "realtime" else PATH.format(device=client)

    def lead_ms(self, config: Config) -> int:
        """How far the daemon's sending runs ahead of playing."""
        if self.name == "realtime":
            return config.realtime.lead_ms
        return config.xiaozhi.lead_frames * DOWNLINK_MS

    @property
    def wire(self) -> Callable[[], Wire]:
        """Makes the protocol anew for a conversation."""
        if self.name == "realtime":
            return RealtimeWire
        return lambda: XiaozhiWire(mode=self.mode, codec=self.codec, frame_ms=self.frame_ms)


def no_peer(face: Name) -> None:
    """Says why a face cannot be measured beside the peer.

    Raises:
        BadRequest: it cannot.
    """
    if face == "xiaozhi":
        raise BadRequest(
            "Stock pipecat does not speak the device protocol",
            mend="Leave out --peer, or measure --face realtime",
        )
