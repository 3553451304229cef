# pyright: strict
"""What `bench asr` found out: pure.

Files tell how much is understood, and what it costs; speech at its own pace tells how long somebody
waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.bench.analysis import percentiles, rounded
from pipeline.bench.asr_listening import Heard
from pipeline.bench.asr_score import Edits, Scored, total, worst

#: utterances that are shown with what went wrong in them
WORST = 20
#: how languages are called in the object: "" is noise
_LANGUAGES = {"zh": "zh", "en": "en", "": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Utterances that were heard under the same circumstances.

    Parameters:
        heard: those of which the text came.
        wall_s: how long all of it took.
        cpu_s: processor time of the recogniser.
        memory_mb: held afterwards.
        failures: the others, by code.
    """

    heard: Sequence[Heard]
    wall_s: float
    cpu_s: float
    memory_mb: float
    failures: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def audio_s(self) -> float:
        """Of what was heard."""
        return sum(each.audio_s for each in self.heard)

    @property
    def rtf(self) -> float | None:
        """Seconds of waiting for texts a second of audio, of files."""
        return _share(sum(each.took_s or 0.0 for each in self.heard), self.audio_s)

    @property
    def cpu_s_per_audio_s(self) -> float | None:
        """Processor time a second of audio."""
        return _share(self.cpu_s, self.audio_s)

    def ms(self, pick: Callable[[Heard], float | None]) -> dict[str, float | None]:
        """Percentiles of some of its seconds, in milliseconds."""
        found = map(pick, self.heard)
        return percentiles(None if each is None else 1e3 * each for each in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """So many conversations at a time.

    Parameters:
        files: as fast as they are taken.
        spoken: at the pace of speech; None: not measured.
    """

    files: Step
    spoken: Step | None = None

    def to_json(self) -> dict[str, Any]:
        """The level as the object has it."""
        steps = [self.files, *([self.spoken] if self.spoken else [])]
        codes = dict.fromkeys(code for step in steps for code in step.failures)
        return {
            "utterances": len(self.files.heard),
            "audio_s_per_s": rounded(_share(self.files.audio_s, self.files.wall_s), 3),
            "answer_ms": self.files.ms(lambda heard: heard.answer_s),
            **_spoken_json(self.spoken),
            "memory_mb": rounded(max(step.memory_mb for step in steps), 0),
            "failures": {code: sum(step.failures.get(code, 0) for step in steps) for code in codes},
        }


@dataclass(slots=True, kw_only=True)
class AsrResult:
    """What was found of one recogniser.

    Parameters:
        about: which.
        asked_ms: silence after which it is asked for the text of what is spoken.
        lines: all utterances with their texts, as files.
        alone: all utterances, one at a time.
        by_concurrency: some of them, by conversations at a time.
        peer: the same of the recogniser that it is compared with.
    """

    about: str
    asked_ms: float
    lines: Sequence[Scored] = ()
    alone: Level | None = None
    by_concurrency: dict[int, Level] = field(default_factory=dict[int, Level])
    peer: AsrResult | None = None

    def to_json(self) -> dict[str, Any]:
        """The one object that --json prints."""
        own, peer = self._own_json(), self.peer._own_json() if self.peer else None
        return {**own, "peer": peer, "ratio": ratios(own, peer) if peer else None}

    def _own_json(self) -> dict[str, Any]:
        files = self.alone.files if self.alone else None
        spoken = self.alone.spoken if self.alone else None
        return {
            "engine": self.about,
            "utterances": len(self.lines),
            "audio_s": rounded(files and files.audio_s, 2),
            "cer": self._rate("zh"),
            "wer": self._rate("en"),
            "error_rate": rounded(total(self.lines).rate, 4),
            "by_language": {
                _LANGUAGES[language]: _edits_json([x for x in self.lines if x.language == language])
                for language in dict.fromkeys(each.language for each in self.lines)
            },
            "rtf": rounded(files and files.rtf, 4),
            "cpu_s_per_audio_s": rounded(files and files.cpu_s_per_audio_s, 4),
            "spoken_cpu_s_per_audio_s": rounded(spoken and spoken.cpu_s_per_audio_s, 4),
            "answer_ms": _ms(files, lambda heard: heard.answer_s),
            "silence_ms": rounded(self.asked_ms),
            **_spoken_json(spoken),
            "by_concurrency": {str(n): each.to_json() for n, each in self.by_concurrency.items()},
            "memory_mb": rounded(self.alone and _memory_mb(self.alone), 0),
            "worst": [_line_json(each) for each in worst(self.lines, WORST)],
        }

    def _rate(self, language: str) -> float | None:
        return rounded(total(x for x in self.lines if x.language == language).rate, 4)


def ratios(own: Mapping[str, Any], peer: Mapping[str, Any]) -> dict[str, Any]:
    """Our figures over the peer's; None where one of them has none.

    Args:
        own, peer: objects of `AsrResult`.
    """
    figures: dict[str, Callable[[Mapping[str, Any]], float | None]] = {
        "cer": lambda side: side["cer"],
        "wer": lambda side: side["wer"],
        "rtf": lambda side: side["rtf"],
        "cpu_s_per_audio_s": lambda side: side["cpu_s_per_audio_s"],
        "final_ms": lambda side: side["final_ms"]["p50"],
        "memory_mb": lambda side: side["memory_mb"],
    }
    shared = [count for count in own["by_concurrency"] if count in peer["by_concurrency"]]
    return {
        **{name: _over(pick(own), pick(peer)) for name, pick in figures.items()},
        "audio_s_per_s": {
            count: _over(*(side["by_concurrency"][count]["audio_s_per_s"] for side in (own, peer)))
            for count in shared
        },
    }


def _memory_mb(level: Level) -> float:
    """Held when all was heard: with partials, where there were any."""
    return (level.spoken or level.files).memory_mb


def _spoken_json(spoken: Step | None) -> dict[str, Any]:
    return {
        "first_partial_ms": _ms(spoken, lambda heard: heard.first_partial_s),
        "partials": spoken and sum(each.first_partial_s is not None for each in spoken.heard),
        "asked_ms": _ms(spoken, lambda heard: heard.asked_s),
        "final_ms": _ms(spoken, lambda heard: heard.final_s),
        "client_late_ms": _ms(spoken, lambda heard: heard.late_s),
    }


def _ms(step: Step | None, pick: Callable[[Heard], float | None]) -> dict[str, float | None]:
    return step.ms(pick) if step else percentiles(())


def _edits_json(lines: Iterable[Scored]) -> dict[str, Any]:
    lines = [*lines]
    found: Edits = total(lines)
    return {
        "utterances": len(lines),
        "units": found.units,
        "rate": rounded(found.rate, 4),
        "substitutions": found.substitutions,
        "deletions": found.deletions,
        "insertions": found.insertions,
        "wrong_utterances": sum(each.edits.errors > 0 for each in lines),
    }


def _line_json(line: Scored) -> dict[str, Any]:
    return {
        "file": line.name,
        "errors": line.edits.errors,
        "units": line.edits.units,
        "said": line.said,
        "heard": line.heard,
        "marked": line.marked,
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _over(own: float | None, other: float | None) -> float | None:
    return rounded(own / other, 3) if own is not None and other else None
