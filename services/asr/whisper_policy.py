"""How a turn's audio becomes text: windows, beams and guards. No threads, no model library.

Measured on real speech (beam 5 where not said): windows of 8, 10 and 15 s err alike, about one
character in nine; at 6 s the model says short sentences many times over. 12 s erred least and least
by chance (7.6 % of the characters of five clips, each heard at eight offsets; 10 s 11 %, 13 s 9 %),
and the encoder's time grows faster than the window, so 12 s it is. Beam 3 costs 2 points of
accuracy, beam 1 costs 6; they save 10 % and 20 % of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from services.asr.base import SAMPLE_RATE, Samples, Transcript
from services.asr.mel import FRAMES_PER_S, N_FFT, Mel, encoder_input, log_mel
from services.asr.turn_audio import Snapshot, is_silent, pieces
from services.asr.whisper_model import Decoder, Hypothesis
from services.asr.whisper_text import (
    is_subtitle,
    join_pieces,
    repeat_period,
    tidy,
    units,
    without_repeats,
)

#: Whisper's longest window
LONGEST_S = 30.0
#: padding after the audio, at least: without it the model repeats the sentence
TAIL_S = 3.0
#: window and padding of the second opinion on a text that repeats itself
SECOND_WINDOW_S = 16.0
#: level of the loudest bin, and of the padding: a faint room, which erred least
LOUDEST, PADDING = 1.2, -0.2
SECOND_PADDING = LOUDEST - 2.0
#: below this, what looks like a subtitle is one; people's words are at about -0.2 to -0.5
SUBTITLE_LOG_PROB = -0.6
#: faster than anyone speaks, in characters or words; bounds a model that loops
UNITS_PER_S = 10.0
TOKENS_PER_S, TOKENS_MORE = 15.0, 16


@dataclass(frozen=True, slots=True)
class Piece:
    """What was recognised in a piece of the turn; an empty text has no language."""

    text: str = ""
    language: str = ""
    log_prob: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperPolicy:
    """Recognises turns with a decoder.

    Parameters:
        decoder: the model.
        simplify: makes Chinese simplified.
        beam: of finals.
        window_s: shortest window, seconds.
        min_log_prob: a text below it is noise.
    """

    decoder: Decoder
    simplify: Callable[[str], str]
    beam: int
    window_s: float
    min_log_prob: float

    def transcribe(
        self,
        audio: Snapshot,
        *,
        known: dict[tuple[int, int], Piece],
        languages: Sequence[str],
        final: bool,
        check: Callable[[], None],
    ) -> Transcript:
        """Recognises a turn.

        Args:
            audio: the turn.
            known: pieces of the same turn recognised before, by start and end; grows.
            languages: codes of the decoder's; the likeliest is chosen for each piece.
            final: False decodes the last piece greedily.
            check: called between steps; may raise, to stop.
        """
        began = time.perf_counter()
        samples = audio.join()
        found: list[Piece] = []
        for start, end in pieces(samples, longest_s=LONGEST_S - TAIL_S):
            key = (audio.start + start, audio.start + end)
            last = end == samples.size
            piece = known.get(key)
            if piece is None:
                beam = self.beam if final or not last else 1
                piece = self._recognise(
                    samples[start:end], languages=languages, beam=beam, check=check
                )
                if not last:
                    known[key] = piece
            if piece.text:
                found.append(piece)
        scores = [piece.log_prob for piece in found if piece.log_prob is not None]
        return Transcript(
            text=join_pieces([piece.text for piece in found]),
            language=found[0].language if found else "",
            final=final,
            log_prob=sum(scores) / len(scores) if scores else None,
            audio_s=audio.end / SAMPLE_RATE,
            compute_s=time.perf_counter() - began,
        )

    def _recognise(
        self,
        samples: Samples,
        *,
        languages: Sequence[str],
        beam: int,
        check: Callable[[], None],
    ) -> Piece:
        check()
        if samples.size < N_FFT or is_silent(samples):
            return Piece()
        mel = log_mel(samples)
        seconds = samples.size / SAMPLE_RATE
        encoded = self._encode(mel, window_s=self.window_s, padding=PADDING)
        check()
        language = self.decoder.detect(encoded, languages)
        best = self._generate(encoded, language=language, beam=beam, seconds=seconds)
        if repeat_period(best.text):
            check()
            best = self._second_opinion(mel, best, language=language, beam=beam, seconds=seconds)
        text = tidy(best.text)
        poor = best.log_prob < SUBTITLE_LOG_PROB and is_subtitle(text)
        if best.log_prob < self.min_log_prob or poor or not units(text):
            return Piece(log_prob=best.log_prob)
        if language == "zh":
            text = self.simplify(text)
        return Piece(text, language, best.log_prob)

    def _second_opinion(
        self, mel: Mel, first: Hypothesis, *, language: str, beam: int, seconds: float
    ) -> Hypothesis:
        """Hears a text that repeats itself once more, in another window.

        People do repeat themselves; the model does it by its window. A text that still repeats is
        kept, unless nobody speaks that fast.
        """
        encoded = self._encode(mel, window_s=SECOND_WINDOW_S, padding=SECOND_PADDING)
        second = self._generate(encoded, language=language, beam=beam, seconds=seconds)
        period = repeat_period(second.text)
        if period and len(units(second.text)) > UNITS_PER_S * seconds:
            return Hypothesis(without_repeats(second.text, period), first.log_prob)
        return second

    def _encode(self, mel: Mel, *, window_s: float, padding: float) -> Any:
        frames = max(int(window_s * FRAMES_PER_S), mel.shape[1] + int(TAIL_S * FRAMES_PER_S))
        frames = min(frames, int(LONGEST_S * FRAMES_PER_S))
        # The encoder halves the frames.
        frames += frames % 2
        return self.decoder.encode(
            encoder_input(mel, frames=frames, loudest=LOUDEST, padding=padding)
        )

    def _generate(self, encoded: Any, *, language: str, beam: int, seconds: float) -> Hypothesis:
        return self.decoder.generate(
            encoded,
            language=language,
            beam=beam,
            max_tokens=int(seconds * TOKENS_PER_S) + TOKENS_MORE,
        )
