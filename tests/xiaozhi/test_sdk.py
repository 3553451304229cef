"""Invariants: the `xiaozhi-sdk` client, as it is, goes all the way: the OTA address, the hellos,
its tools, audio both ways, a text, an abort, and the next turn.

It runs in a process of its own, see `sdk_client`. Its core does not import `sounddevice`, which
wants PortAudio: only its command line does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.inside import inside
from tests.daemon.process import ROOT

STORY = "从前有一座山。"
LONG = "很久很久以前，有一个很小很小的村子。" * 4
SETS = {
    "scripted.transcripts": '["声音大一点", "讲完了吗"]',
    "scripted.replies": json.dumps(
        ['@call set_volume {"volume": 30}@then 音量设好了。', STORY, LONG, "讲完了。"],
        ensure_ascii=False,
    ),
    "xiaozhi.auth": "on",
    "xiaozhi.enrolment": "open",
}


def run(address: str, mode: str) -> dict[str, dict[str, Any]]:
    """What the client tells of each step."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.xiaozhi.sdk_client", f"http://{address}/xiaozhi/ota/", mode],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    return {each.pop("step"): each for each in steps}


@pytest.mark.parametrize("mode", ["auto", "realtime"])
async def test_the_sdk_goes_all_the_way(tmp_path: Path, mode: str) -> None:
    async with inside({**SETS, "xiaozhi.devices_file": tmp_path / "devices.json"}) as daemon:
        steps = await asyncio.to_thread(run, daemon.address, mode)
        assert steps["connected"]["url"] == f"ws://{daemon.address}/xiaozhi/v1/"
        voice, text = steps["voice"], steps["text"]
        assert voice["stt"] == "声音大一点"
        assert voice["volume"] == 30
        assert voice["heard_s"] > 0.5
        assert text["stt"] == "讲个故事"
        assert text["heard_s"] > 0.5
        assert steps["abort"] == {"after": [], "heard_s": 0.0}
        assert steps["next"]["stt"] == "讲完了吗"
        assert steps["next"]["heard_s"] > 0.3
        assert steps["over"] == {"starts": 4, "stops": 4}
        assert steps["errors"] == {"messages": []}
        await daemon.empty()
