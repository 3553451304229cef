"""A worker without a model: it speaks the wire, and does what a text tells it to.

Usage: python fake_worker.py [ready|voiceless|refuse|die|mute]
"""

from __future__ import annotations

import os
import signal
import sys

import tts_engine.cosyvoice.wire as wire
from tts_engine.errors import BadAudio, ModelMissing


def send(report: wire.Report) -> None:
    os.write(1, wire.encode(report))


def speak(order: wire.Speak) -> None:
    send(wire.Started(id=order.id, waited_s=0.5))
    if order.text == "hang":
        signal.pause()
    if order.text == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(1)
        signal.pause()
    if order.text == "crash":
        sys.stderr.write("the last words\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if order.text == "bad":
        send(wire.failed(order.id, BadAudio("Not like that", mend="Do it otherwise")))
        return
    send(wire.Audio(id=order.id, marks=[(100, 1)], payload=bytes(2 * 12_000)))
    if order.text == "stall":
        return
    send(wire.Audio(id=order.id, marks=[(12_500, len(order.text))], payload=bytes(2 * 500)))
    send(wire.Done(id=order.id, tokens=13, decode_steps=13, decoded=26))


def answer(order: wire.Order) -> None:
    match order:
        case wire.Speak():
            speak(order)
        case wire.Register():
            send(wire.Registered(id=order.id, name=order.name))
        case wire.Remove():
            send(wire.Removed(id=order.id, name=order.name))
        case wire.Cancel():
            sys.stderr.write(f"cancelled {order.id}\n")
            sys.stderr.flush()


def main() -> None:
    how = sys.argv[1]
    frames = wire.Frames()
    while data := os.read(0, 65_536):
        for order in frames.feed(data):
            if not isinstance(order, wire.Settings):
                answer(order)
            elif how == "refuse":
                send(wire.failed(wire.NOBODY, ModelMissing("No model", mend="Get one")))
                sys.exit(1)
            elif how == "die":
                sys.exit("I cannot go on")
            elif how != "mute":
                send(wire.Ready(kind="cosyvoice2" if how == "ready" else "cosyvoice3"))


main()
