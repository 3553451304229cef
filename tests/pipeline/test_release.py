"""Invariants: of a conversation that is over, the pipeline lets go of all that it held, without a
collection; calls that come late do nothing.
"""

from __future__ import annotations

from tests.daemon.client import talking
from tests.daemon.inside import inside, settled


async def test_the_pipeline_lets_go() -> None:
    async with inside() as served:
        async with talking(served.url) as client:
            await client.speak()
            await client.done()
            [session] = served.daemon.sessions.values()
            ours = session._worker.pipeline.processors[1].processors
            others = [each for each in ours if each not in (session.ear, session.mouth)]
            assert len(others) == 7
        await settled(lambda: not any(map(vars, others)), "something is kept")
        session.audio(bytes(320), arrived=0.0)
        session.cancel()
        session.close()
