"""Says the same speech to several servers in turn, and measures what each makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.bench.analysis import Measured, answers_after, first_audible, measured
from pipeline.bench.client import PacedClient, conversation
from pipeline.bench.speech import Clip, Samples
from pipeline.bench.wire import Wire
from pipeline.talk.endpoint import Endpoint

#: utterances of a conversation; then it is the next server's turn, so that what the machine does
#: meanwhile is the same for all
BLOCK = 8
#: nothing is played and nothing new came for so long: the user may go on, seconds
_QUIET_S = 0.7
#: longest wait for an answer to end, seconds
_LONGEST_S = 60.0
_LIVELY = frozenset({"opened", "turn", "answer", "audio", "text", "flush", "paused", "resumed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A server to be measured.

    Parameters:
        name: for reports.
        endpoint: where it is.
        wire: makes its protocol anew for a conversation.
    """

    name: str
    endpoint: Endpoint
    wire: Callable[[], Wire]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for all of them.

    Parameters:
        frame_ms: length of the microphone's frames.
        timeout_s: an answer that is not heard by then, after the true end, was missed.
        room: noise between the utterances; None: silence.
    """

    frame_ms: int = 20
    timeout_s: float = 10.0
    room: Samples | None = None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of one server's turns.

    Parameters:
        turns: in the order of the clips.
        client_late_ms: how late the client itself sent its frames; a client that was held up makes
            every server look slow.
    """

    turns: list[Measured]
    client_late_ms: list[float]


async def contest(
    contestants: Sequence[Contestant],
    clips: Sequence[Clip],
    rules: Rules,
    *,
    advance: Callable[[Contestant, Measured], None] = lambda *_: None,
) -> dict[str, Outcome]:
    """Says all clips to all servers, block by block.

    Returns:
        Outcomes by the servers' names.

    Raises:
        DuplexdError: a server refused, or hung up.
    """
    outcomes = {each.name: Outcome(turns=[], client_late_ms=[]) for each in contestants}
    for number, at in enumerate(range(0, len(clips), BLOCK)):
        # Nobody always comes first.
        first = number % len(contestants)
        for each in (*contestants[first:], *contestants[:first]):
            outcome = outcomes[each.name]
            async with conversation(
                each.endpoint, each.wire(), frame_ms=rules.frame_ms, room=rules.room
            ) as client:
                talk = Talk(client, rules)
                for clip in clips[at : at + BLOCK]:
                    turn = await talk.say(clip)
                    outcome.turns.append(turn)
                    advance(each, turn)
            outcome.client_late_ms += client.late_ms
    return outcomes


class Talk:
    """A conversation with one server: one utterance after the other."""

    def __init__(self, client: PacedClient, rules: Rules) -> None:
        self._client = client
        self._rules = rules
        self._read = 0  # news that were looked at
        self._last = client.began
        self._open: set[str] = set()  # answers that began, and are not over

    async def say(self, clip: Clip) -> Measured:
        """Says a clip once it is quiet, and waits until all that follows is over."""
        client = self._client
        await client.until(self.quiet, timeout_s=_LONGEST_S)
        first = len(client.news)
        said = client.say(client.sound(clip.samples))
        start, end = said.start + clip.start, said.start + clip.end
        due = end + self._rules.timeout_s

        def answered() -> bool:
            news = client.news[first:]
            names = answers_after(news, end=end)
            return any(each.kind == "audio" and each.answer in names for each in news)

        await client.until(answered, timeout_s=due - time.monotonic())
        await client.until(self.quiet, timeout_s=_LONGEST_S)
        news = client.news[first:]
        heard_at: list[tuple[str, float]] = []
        for name in answers_after(news, end=end):
            at = first_audible(client.recording.heard.of(client.source(name)))
            if at is not None and client.time(at) <= due:
                heard_at.append((name, client.time(at)))
        return measured(
            news, clip=clip.name, kind=clip.kind, start=start, end=end, heard_at=heard_at
        )

    def quiet(self) -> bool:
        """All that is said was sent, every answer is over and was played, and nothing new came."""
        news = self._client.news
        for each in news[self._read :]:
            if each.kind in _LIVELY:
                self._last = each.at
            if each.kind == "answer":
                self._open.add(each.answer)
            elif each.kind == "done":
                self._open.discard(each.answer)
        self._read = len(news)
        since = max(self._last, self._client.playing_until, self._client.said_until)
        return not self._open and time.monotonic() - since >= _QUIET_S
