"""Work off the event loop: one piece at a time, and of what was asked meanwhile only the last."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import panel as pn

from hardmax.app.scene import Scene

Result = TypeVar("Result")

# Two lines, first come, first served: whoever asks for a little waits for no one who asks for much. Python computes one
# thing at a time, so that more threads would only take turns.
QUICK, LONG = ThreadPoolExecutor(1, "hardmax-quick"), ThreadPoolExecutor(2, "hardmax-long")


async def off_the_loop(work: Callable[[], Result], *, long: bool) -> Result:
    """The result of some work, when its turn has come."""
    return await asyncio.get_running_loop().run_in_executor(LONG if long else QUICK, work)


def takes_long(scene: Scene, *, final: bool) -> bool:
    """Whether the answer to a scene takes more than about a tenth of a second; flows always may."""
    if scene.rule not in ("hardmax", "softmax"):
        return True
    if scene.rule == "softmax" and scene.n**2 * scene.layers > 4_000_000:
        return True
    return scene.n * scene.layers > (30_000 if final else 200_000) or (final and scene.layers > 50)


class Latest:
    """Runs a coroutine function until nothing new was asked since it began; never twice at once."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self.running = False
        self.asked = False  # since the work that is running began

    def ask(self) -> None:
        """Run it, or run it again once it is done."""
        self.asked = True
        if not self.running:
            self.running = True
            pn.state.execute(self._run)

    async def _run(self) -> None:
        try:
            while self.asked:
                self.asked = False
                await self._work()
                await asyncio.sleep(0)  # so that what came meanwhile is heard
        finally:
            self.running = False
