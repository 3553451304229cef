"""The Xiaozhi face: what ESP32 devices with 小智 firmware speak, over a WebSocket."""
