"""The stock pipecat pipeline, over our engines, as a server of its own.

        transport in -> STT -> user aggregator -> LLM -> TTS -> transport out -> assistant

Nothing of it is ours but the engines. Variants, each at a path of its own:

        /default   pipecat's defaults: Silero with 0.2 s, Smart Turn v3.2, sentence aggregation
        /timeout   the same, but a turn ends after a fixed silence: SpeechTimeout 0.2 s

It is tuned as its authors advise: transcripts are final, no resampling on either way, no metrics,
no RTVI, no turn tracking, no pings, the client's own frame length (`?frame_ms=20`).
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, WebSocket
from fastapi.responses import JSONResponse
from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import OutputTransportMessageUrgentFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
    UserTurnStoppedMessage,
)
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from pipeline.bench.peer_services import PeerLlm, PeerVoice
from pipeline.bench.peer_wire import READY, TURN, PeerSerializer
from pipeline.bench.wire import MICROPHONE_RATE
from pipeline.engines import Brain, EngineRoom
from services.asr.stt_service import RecogniserSttService

if TYPE_CHECKING:
    from pipeline.config import Config
    from services.models.store import ModelStore

#: the strategies of each variant; made anew for every conversation
VARIANTS: dict[str, Callable[[], UserTurnStrategies]] = {
    "default": UserTurnStrategies,
    "timeout": lambda: UserTurnStrategies(
        stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.2)]
    ),
}


def create_app(config: Config, store: ModelStore) -> FastAPI:
    """The server; engines are warm before it is ready."""
    room = EngineRoom(config=config, store=store)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await room.start()
        yield
        await room.close()

    app = FastAPI(lifespan=lifespan)
    numbers = itertools.count(1)

    @app.get("/readyz")
    async def ready() -> JSONResponse:
        return JSONResponse({"status": "ready"})

    @app.websocket("/{variant}")
    async def talk(socket: WebSocket, variant: str, frame_ms: int = 20) -> None:
        if variant not in VARIANTS:
            await socket.close(1008, f"no variant {variant}")
            return
        await socket.accept()
        assert room.brain is not None
        await _converse(
            socket,
            config=config,
            room=room,
            brain=room.brain,
            strategies=VARIANTS[variant](),
            frame_ms=frame_ms,
            session=f"peer-{next(numbers)}",
        )

    return app


async def _converse(
    socket: WebSocket,
    *,
    config: Config,
    room: EngineRoom,
    brain: Brain,
    strategies: UserTurnStrategies,
    frame_ms: int,
    session: str,
) -> None:
    """One conversation, from its first frame until the client is gone."""
    transport = FastAPIWebsocketTransport(
        socket,
        FastAPIWebsocketParams(
            audio_in_enabled=True,
            audio_out_enabled=True,
            audio_out_10ms_chunks=max(1, frame_ms // 10),
            serializer=PeerSerializer(),
            allowed_origins=[],
        ),
    )
    users = LLMContextAggregatorPair(
        LLMContext(),
        user_params=LLMUserAggregatorParams(
            vad_analyzer=SileroVADAnalyzer(), user_turn_strategies=strategies
        ),
    )
    llm = PeerLlm(
        brain.client,
        settings=PeerLlm.Settings(
            model=brain.model,
            system_instruction=config.prompts.text("zh"),
            temperature=config.llm.temperature,
            max_tokens=config.llm.max_tokens,
        ),
    )
    voice = PeerVoice(
        room.voice,
        voice=config.tts.voice if config.tts.provider != "scripted" else None,
        speed=config.tts.speed,
    )
    worker = PipelineWorker(
        Pipeline(
            [
                transport.input(),
                RecogniserSttService(room.asr, session=session),
                users.user(),
                llm,
                voice,
                transport.output(),
                users.assistant(),
            ]
        ),
        params=PipelineParams(
            audio_in_sample_rate=MICROPHONE_RATE,
            audio_out_sample_rate=room.voice.sample_rate,
        ),
        enable_rtvi=False,
        enable_turn_tracking=False,
        idle_timeout_secs=None,
    )

    async def tell(kind: str, text: str = "") -> None:
        message = {"type": kind, "text": text}
        await worker.queue_frame(OutputTransportMessageUrgentFrame(message=message))

    @worker.event_handler("on_pipeline_started")
    async def started(*_: Any) -> None:
        await tell(READY)

    @users.user().event_handler("on_user_turn_stopped")
    async def stopped(_: Any, __: Any, message: UserTurnStoppedMessage) -> None:
        await tell(TURN, message.content or "")

    @transport.event_handler("on_client_disconnected")
    async def gone(*_: Any) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()


def run(config: Config) -> None:
    """Serves until SIGTERM.

    Raises:
        DuplexdError: an engine cannot be started.
    """
    import uvicorn

    from pipeline.commands.logs import log_warnings_only
    from pipeline.commands.weights import fetch_needed
    from pipeline.store import open_store

    log_warnings_only()
    fetch_needed(config, say=logger.info)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(config, open_store(config)),
            host=config.server.host,
            port=config.server.port,
            ws_ping_interval=None,
            ws_per_message_deflate=False,
            log_level="warning",
            access_log=False,
        )
    )
    server.run()
