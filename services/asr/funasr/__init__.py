"""Recognition by FunASR's models, in a worker process of their own."""
