"""A worker without a model: it speaks the wire, and does what a text tells it to.

Usage: python fake_worker.py [ready|voiceless|refuse|die|mute]
"""

from __future__ import annotations

import os
import signal
import sys

import tts_engine.cosyvoice.wire as wire
from tts_engine.errors import BadAudio, ModelMissing
from tts_engine.frames import NOBODY, Frames, encode, failed

slow: list[wire.Register] = []
texts: dict[int, list[str]] = {}


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def send(report: wire.Report) -> None:
    os.write(1, encode(report))


def speak(order: wire.Speak) -> None:
    send(wire.Started(id=order.id, waited_s=0.5))
    if order.more:
        texts[order.id] = [order.text]
        return
    if order.text == "before?":
        send(failed(order.id, BadAudio(f"{order.before_text} {order.before_tokens}")))
        return
    if order.text == "hang":
        signal.pause()
    if order.text == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(1)
        signal.pause()
    if order.text == "crash":
        say("the last words")
        os.kill(os.getpid(), signal.SIGKILL)
    if order.text == "bad":
        send(failed(order.id, BadAudio("Not like that", mend="Do it otherwise")))
        return
    send(wire.Audio(id=order.id, marks=[(100, 1)], payload=bytes(2 * 12_000)))
    if order.text == "stall":
        return
    send(wire.Audio(id=order.id, marks=[(12_500, len(order.text))], payload=bytes(2 * 500)))
    said = list(range(len(order.text))) if order.carry else []
    send(wire.Done(id=order.id, tokens=13, decode_steps=13, decoded=26, said=said))


def more(order: wire.More) -> None:
    """Says each piece of a text as it comes, 100 samples; "cut" ends it before its time."""
    if order.id not in texts:
        return
    if order.text:
        texts[order.id].append(order.text)
        count, chars = len(texts[order.id]) - 1, len("".join(texts[order.id]))
        send(wire.Audio(id=order.id, marks=[(100 * count, chars)], payload=bytes(2 * 100)))
    if order.last or order.text == "cut":
        del texts[order.id]
        send(wire.Done(id=order.id, tokens=13, decode_steps=13, decoded=26))


def answer(order: wire.Order) -> None:
    match order:
        case wire.Speak():
            speak(order)
        case wire.More():
            more(order)
        case wire.Register():
            if order.name == "slow":  # it is ready when nobody waits any more
                slow.append(order)
            else:
                send(wire.Registered(id=order.id, name=order.name))
        case wire.Remove():
            say(f"removed {order.name}")
            send(wire.Removed(id=order.id, name=order.name))
        case wire.Cancel():
            say(f"cancelled {order.id}")
            for made in slow:
                send(wire.Registered(id=made.id, name=made.name))


def main() -> None:
    how = sys.argv[1]
    frames = Frames(wire.ORDERS)
    while data := os.read(0, 65_536):
        for order in frames.feed(data):
            if not isinstance(order, wire.Settings):
                answer(order)
            elif how == "refuse":
                send(failed(NOBODY, ModelMissing("No model", mend="Get one")))
                sys.exit(1)
            elif how == "die":
                sys.exit("I cannot go on")
            elif how != "mute":
                send(wire.Ready(kind="cosyvoice2" if how == "ready" else "cosyvoice3"))


main()
