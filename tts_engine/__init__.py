"""The synthesis engine, usable without the rest."""

import os

# onnxruntime reports to its maker over the network unless it is told not to, before it is loaded.
# A private assistant sends nothing anywhere.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
