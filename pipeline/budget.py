"""How the cores of the machine are shared out among the engines.

Inside one conversation recogniser, LLM and voice work mostly one after the other, so the shares
may add up to more than the cores. An engine whose threads wait by spinning must not take them all:
it collapses when others use the cores. The voice's do not spin, so it gets two even of two cores:
see docs/decisions/008.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipeline.cgroup import cpu_quota

if TYPE_CHECKING:
    from pipeline.config_schema import Threads

#: cores per thread of each engine
_SHARE = {"asr": 4, "tts": 2, "llm": 2}
#: threads that the voice gets at least, as far as there are cores
_VOICE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadBudget:
    """Compute threads of each engine.

    Parameters:
        cores: what the shares were computed from.
        asr, tts, llm: threads, 1 or more.
        warnings: what is unwise about the choice, one sentence each.
    """

    cores: int
    asr: int
    tts: int
    llm: int
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_cores(
        cls, cores: int, overrides: Mapping[str, int | None] | None = None
    ) -> ThreadBudget:
        """Shares out `cores`.

        Args:
            cores: cores this process may use, 1 or more.
            overrides: threads by engine, "asr", "tts", "llm"; None leaves the share.
        """
        chosen = {name: max(1, cores // share) for name, share in _SHARE.items()}
        warnings: list[str] = []
        chosen["tts"] = max(chosen["tts"], min(_VOICE, cores))
        for name, count in (overrides or {}).items():
            if count is None:
                continue
            chosen[name] = count
            if count > cores:
                warnings.append(
                    f"threads.{name} is {count} on {cores} core{'s' if cores > 1 else ''}: "
                    "threads that wait for each other make it slower"
                )
        return cls(cores=cores, **chosen, warnings=tuple(warnings))

    @classmethod
    def of(cls, threads: Threads, cores: int | None = None) -> ThreadBudget:
        """The budget that a configuration asks for, on this machine unless `cores` are given."""
        asked: dict[str, int | Literal["auto"]] = {
            "asr": threads.asr,
            "tts": threads.tts,
            "llm": threads.llm,
        }
        return cls.from_cores(
            available_cores() if cores is None else cores,
            {name: None if count == "auto" else count for name, count in asked.items()},
        )


def available_cores() -> int:
    """Cores this process may use: its affinity, and the CPU quota of its control group."""
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))
