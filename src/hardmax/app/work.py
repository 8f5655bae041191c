"""Work off the event loop: one piece at a time, and of what was asked meanwhile only the last."""

import asyncio
from collections.abc import Awaitable, Callable

import panel as pn


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
