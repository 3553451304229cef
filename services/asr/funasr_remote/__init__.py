"""Recognition by a FunASR runtime elsewhere, over its WebSocket protocol."""
