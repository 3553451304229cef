"""Adapters to what lies outside: engines, servers, protocols."""

import tts_engine  # noqa: F401 - no telemetry, whoever loads onnxruntime first
