"""Frees an ended pipeline at once.

pipecat's processors hold one another, their queues and their handlers in cycles: a thousand objects
a conversation that only a full collection frees, and one of those stops the loop for a microsecond
an object, the living included (76 ms after 40 conversations). Emptied, they go by their counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameProcessor


def release(worker: PipelineWorker, *, keep: Collection[FrameProcessor]) -> None:
    """Empties a worker that has run, and its processors.

    Args:
        worker: is not to be used any more.
        keep: processors that others may still call.
    """
    for processor in list(_all(worker.pipeline)):
        if processor not in keep:
            vars(processor).clear()
    vars(worker).clear()


def _all(processor: FrameProcessor) -> Iterator[FrameProcessor]:
    yield processor
    for part in processor.processors:
        yield from _all(part)
