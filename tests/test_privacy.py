"""Invariant: nothing is sent anywhere, and no library leaves a device's name behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["services.vad.silero", "tts_engine.kokoro.engine"])
def test_onnxruntime_reports_to_nobody(module: str, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    script = (
        f"import {module}, asyncio\n"
        "from services.vad.silero import SileroVad\n"
        "asyncio.run(SileroVad().start())"
    )
    subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        env=environment,
        cwd=Path(__file__).parents[1],
        timeout=60,
    )
    assert not (tmp_path / "Microsoft").exists()
