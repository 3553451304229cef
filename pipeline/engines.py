"""Builds the shared engines from the configuration, and warms them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from loguru import logger
from openai import AsyncOpenAI

from pipeline.budget import ThreadBudget
from pipeline.config_schema import Config
from pipeline.recognition import build_asr
from pipeline.session import Engines
from pipeline.transcription import build_vad
from pipeline.voice import build_voice
from services.asr.base import AsrEngine
from services.llm.client import make_client, probe, warm
from services.llm.load import ServerLoad
from services.llm.local import LocalLlm, choose_model
from services.models.store import ModelStore
from services.scripted.spec import LlmSpec
from services.turn_end.base import TurnEndEngine
from tts_engine.engine import SpeechEngine
from tts_engine.errors import DuplexdError


@dataclass(slots=True, kw_only=True)
class Brain:
    """The language model: a client, and the server behind it if it is ours.

    Parameters:
        slots: requests that it answers at a time; None: enough.
    """

    client: AsyncOpenAI
    model: str
    slots: int | None = None
    local: LocalLlm | None = None

    async def close(self) -> None:
        """Closes the connections, and ends the local server."""
        await self.client.close()
        if self.local is not None:
            await self.local.close()


class EngineRoom:
    """All engines of the process: built from a configuration, started once, closed once."""

    def __init__(self, *, config: Config, store: ModelStore) -> None:
        self._config = config
        self._store = store
        self.budget = ThreadBudget.of(config.threads)
        self.vad = build_vad(config)
        self.asr = self._build_asr()
        self.voice = self._build_voice()
        self.turn_end = self._build_turn_end()
        self.brain: Brain | None = None
        #: what is not warm yet, by name
        self.waiting: set[str] = {"vad", "asr", "tts", "llm"}
        if self.turn_end is not None:
            self.waiting.add("turn_end")

    async def start(self) -> Engines:
        """Starts and warms everything at once; the slowest engine decides how long it takes.

        Raises:
            DuplexdError: of the first engine that cannot be started; the others are closed.
        """
        starts = {
            "vad": self.vad.start(),
            "asr": self.asr.start(),
            "tts": self.voice.start(),
            "llm": self._start_brain(),
        }
        if self.turn_end is not None:
            starts["turn_end"] = self.turn_end.start()
        try:
            async with asyncio.TaskGroup() as group:
                for name, start in starts.items():
                    group.create_task(self._timed(name, start), name=f"start {name}")
        except BaseExceptionGroup as failed:
            await self.close()
            raise _first(failed) from failed
        assert self.brain is not None
        return Engines(
            vad=self.vad,
            asr=self.asr,
            llm=self.brain.client,
            voice=self.voice,
            load=ServerLoad(self.brain.slots),
            turn_end=self.turn_end,
        )

    async def close(self) -> None:
        """Closes everything. Idempotent."""
        brain, self.brain = self.brain, None
        if brain is not None:
            await brain.close()
        if self.turn_end is not None:
            await self.turn_end.close()
        await self.voice.close()
        await self.asr.close()
        await self.vad.close()

    async def _timed(self, name: str, start: Awaitable[None]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await start
        self.waiting.discard(name)
        logger.info("{} is warm ({:.1f} s)", name, loop.time() - began)

    def _build_asr(self) -> AsrEngine:
        return build_asr(self._config, self._store, budget=self.budget)

    def _build_voice(self) -> SpeechEngine:
        return build_voice(self._config, self._store, threads=self.budget.tts)

    def _build_turn_end(self) -> TurnEndEngine | None:
        if self._config.turns.acoustic == "off":
            return None
        from services.turn_end.smart_turn import SmartTurn

        return SmartTurn()

    async def _start_brain(self) -> None:
        """Starts, probes and warms the language model."""
        llm = self._config.llm
        if llm.engine == "scripted":
            from services.scripted.llm import scripted_client

            spec = self._config.scripted.delays.llm or LlmSpec()
            client = scripted_client(
                first_token_s=spec.first_token_s,
                tokens_per_s=spec.tokens_per_s,
                texts=self._config.scripted.texts,
            )
            self.brain = Brain(client=client, model="scripted")
        elif llm.engine == "local":
            await self._start_local()
        else:
            key = llm.api_key.get_secret_value() if llm.api_key else ""
            client = make_client(
                base_url=llm.base_url or "https://api.openai.com/v1",
                api_key=key,
                read_timeout_s=max(llm.first_token_timeout_s, llm.idle_timeout_s),
            )
            self.brain = Brain(client=client, model=llm.model or "")
            self.brain.model = await probe(client, llm.model)
            logger.info("language model: {} at {}", self.brain.model, llm.shown_url)
        assert self.brain is not None
        prompts = [self._config.prompts.text("zh"), self._config.prompts.text("en")]
        await warm(self.brain.client, self.brain.model, prompts)

    async def _start_local(self) -> None:
        name = choose_model(self._config.llm.local.model, self.budget.cores)
        logger.info("The local language model {} is a demo brain: expect little of it", name)
        [path] = self._store.path(name).glob("*.gguf")
        settings = self._config.llm.local
        local = LocalLlm(
            model_path=path,
            threads=self.budget.llm,
            context=settings.context * settings.parallel,
            parallel=settings.parallel,
        )
        await local.start()
        client = make_client(base_url=local.base_url, api_key=local.api_key)
        self.brain = Brain(client=client, model=local.model, slots=settings.parallel, local=local)


def _first(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure to show: an expected one if there is one."""
    leaves: list[BaseException] = []
    stack: list[BaseException] = [failed]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(error.exceptions)
        else:
            leaves.append(error)
    return next((e for e in leaves if isinstance(e, DuplexdError)), leaves[0])
