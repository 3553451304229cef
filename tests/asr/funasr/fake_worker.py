"""A worker with models that write down which audio they were given, and do what a hotword says.

Usage: python fake_worker.py [ready|refuse|die|mute]
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

from services.asr.base import Samples
from services.asr.funasr.loop import RecognitionLoop
from services.asr.funasr.parts import Parts
from services.asr.funasr.recognised import Recognised
from services.asr.funasr.schedule import Limits
from services.asr.funasr.wire import ORDERS, Ready, Settings
from tests.asr.funasr.fake_models import SPOILT, FakeOffline, FakeStream, FakeStreaming
from tts_engine.errors import BadAudio, ModelMissing
from tts_engine.worker_side import Inbox, Send, work


class Obedient(FakeOffline):
    """Does what the hotwords say."""

    def transcribe(
        self,
        audio: Sequence[Samples],
        *,
        languages: Sequence[tuple[str, ...] | None],
        hotwords: Sequence[tuple[str, ...]],
    ) -> list[Recognised]:
        for words in hotwords:
            if "hang" in words:
                signal.pause()
            if "deaf" in words:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.closerange(3, 256)  # what the reports go out by is among them
                signal.pause()
            if "crash" in words:
                print("the last words", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if "bad" in words:
                raise BadAudio("Not like that", mend="Do it otherwise")
        return super().transcribe(audio, languages=languages, hotwords=hotwords)


def spoilt(streams: Sequence[FakeStream]) -> Exception | None:
    odd = any(int(each.pushed[0]) >> 20 == SPOILT for each in streams)
    return ValueError("odd") if odd else None


def load(settings: Settings, inbox: Inbox, send: Send) -> Callable[[], None]:
    how = sys.argv[1]
    if how == "refuse":
        raise ModelMissing("No model", mend="Get one")
    if how == "die":
        print("I cannot go on", file=sys.stderr, flush=True)
        os._exit(1)
    if how == "mute":
        signal.pause()
    streaming = None if settings.mode == "offline" else FakeStreaming(spoilt)
    offline = None if settings.mode == "streaming" else Obedient()
    loop = RecognitionLoop(
        parts=Parts(streaming=streaming, offline=offline),
        limits=Limits(pieces=1),
        emit=send,
        inbox=inbox,
        segment_s=settings.segment_s,
        max_turn_s=settings.max_turn_s,
    )
    print("loading says things", flush=True)  # goes to the log
    send(Ready())
    return loop.run


work("The fake", kinds=ORDERS, load=load)
