"""The app under load, over websockets: many who drag, many who come and go, and one whose question takes long.

Whoever drags moves a token in a circle without a rest, as far as the page lets them: one question in flight, the next
one a frame after the last or when the answer is there, whichever is later. Every two seconds they let go, which asks
for the verdict as well, and take the next token. One in four is on softmax and moves the temperature when letting go,
one in four moves alpha. That is more than people ask: they pause to look.
"""

import asyncio
import math
import time
from dataclasses import dataclass, field

import hardmax as hm
from benchmarks.visitors import Answer, Trouble, Visitor
from hardmax.app.scene import Scene

FRAME = 1 / 60  # seconds
STROKE = 2.0  # seconds from taking a token to letting it go
SAMPLED = 20  # one answer of so many is compared
AT_ONCE = 10  # sessions that are open together, of those that come and go
ALPHA, TEMPERATURE = "alpha, the step", "Temperature (0 is hardmax)"  # labels of sliders
LONG = Scene.of_cloud("ball", n=300).changed(rule="self-attention", time=40.0)  # seconds of work
LONG_ONES = 8  # visitors who look at it: more than there are threads


@dataclass
class Seen:
    """What visitors saw."""

    steps: list[float] = field(default_factory=list)  # seconds until the answer to a step of a drag
    ends: list[float] = field(default_factory=list)  # until that to the end of a drag, or to a slider
    troubles: list[str] = field(default_factory=list)
    sample: list[tuple[Scene, list[int]]] = field(default_factory=list)

    def note(self, answer: Answer, scene: Scene, *, final: bool) -> None:
        times = self.ends if final else self.steps
        times.append(answer.seconds)
        if answer.header["error"]:
            self.troubles.append(answer.header["error"])
        elif len(times) % SAMPLED == 0:
            self.sample.append((scene, answer.header["leaders"]))

    @property
    def wrong(self) -> int:
        """Answers of the sample whose leaders are not those of `hm.simulate`."""
        return sum(leaders != leaders_of(scene) for scene, leaders in self.sample)


def leaders_of(scene: Scene) -> list[int]:
    """Who leads, asked without the app."""
    soft = scene.rule == "softmax"
    rule = hm.Softmax(scene.alpha, temperature=scene.temperature) if soft else hm.Hardmax(scene.alpha)
    return hm.simulate(scene.tokens, rule, layers=scene.layers).leaders.tolist()


def scene_of(number: int, n: int) -> Scene:
    """What one of many visitors looks at."""
    scene = Scene.of_cloud("gaussian", n=n, seed=number)
    return scene.changed(rule="softmax") if number % 4 == 1 else scene


async def dragging(visitor: Visitor, number: int, seconds: float, seen: Seen) -> None:
    """One visitor, for so many seconds."""
    end, token = time.perf_counter() + seconds, number % visitor.scene.n
    try:
        while time.perf_counter() < end:
            await _stroke(visitor, token, min(end, time.perf_counter() + STROKE), seen)
            await _slide(visitor, number, seen)
            token = (token + 1) % visitor.scene.n
    except Trouble as trouble:
        seen.troubles.append(str(trouble))


async def _stroke(visitor: Visitor, token: int, end: float, seen: Seen) -> None:
    """Drag a token in a circle, and let it go."""
    x, y = visitor.scene.tokens[token]
    place = (float(x), float(y))
    while (now := time.perf_counter()) < end:
        place = (float(x) + math.cos(3 * now), float(y) + math.sin(3 * now))
        seen.note(await visitor.drag(token, place), visitor.scene, final=False)
        await asyncio.sleep(max(0.0, now + FRAME - time.perf_counter()))
    seen.note(await visitor.drag(token, place, final=True), visitor.scene, final=True)


async def _slide(visitor: Visitor, number: int, seen: Seen) -> None:
    """Move a slider a little, or none."""
    scene = visitor.scene
    if number % 4 == 1:
        label, visitor.scene = TEMPERATURE, scene.changed(temperature=round(scene.temperature % 1.9 + 0.1, 2))
        answer = await visitor.slide(label, visitor.scene.temperature)
    elif number % 4 == 2:
        label, visitor.scene = ALPHA, scene.changed(alpha=round(scene.alpha % 4 + 0.25, 2))
        answer = await visitor.slide(label, visitor.scene.alpha)
    else:
        return
    seen.note(answer, visitor.scene, final=True)


async def drag_together(address: str, visitors: int, n: int, seconds: float) -> Seen:
    """Many at once, who begin when all have the page before them."""
    seen, opened = Seen(), list[Visitor]()
    try:
        for i in range(visitors):
            opened.append(await arrive(address, scene_of(i, n)))
        await asyncio.gather(*(dragging(each, i, seconds, seen) for i, each in enumerate(opened)))
    except Trouble as trouble:
        seen.troubles.append(str(trouble))
    finally:
        for each in opened:
            await each.close()
    return seen


async def arrive(address: str, scene: Scene) -> Visitor:
    """Open the page, and see the scene."""
    visitor = await Visitor.open(address, scene)
    await visitor.ask({"kind": "look"})
    return visitor


async def drag_beside_long_work(address: str, n: int, seconds: float) -> tuple[Seen, list[float]]:
    """What one saw who drags, and how long others waited whose every answer takes long."""
    long: list[float] = []
    others = [await arrive(address, LONG) for _ in range(LONG_ONES)]

    async def asking(visitor: Visitor) -> None:
        for step in range(79):
            long.append((await visitor.slide("Time", LONG.time - 0.5 * (step + 1))).seconds)

    tasks = [asyncio.create_task(asking(each)) for each in others]
    seen = await drag_together(address, 1, n, seconds)
    if any(task.done() for task in tasks):
        seen.troubles.append("The long work ended too soon.")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for each in others:
        await each.close()
    return seen, long


async def come_and_go(address: str, sessions: int, n: int) -> list[str]:
    """Open and close so many, some at a time; the troubles that there were."""
    troubles: list[str] = []

    async def once(number: int) -> None:
        try:
            await (await arrive(address, scene_of(number, n))).close()
        except Trouble as trouble:
            troubles.append(str(trouble))

    for first in range(0, sessions, AT_ONCE):
        await asyncio.gather(*(once(i) for i in range(first, min(first + AT_ONCE, sessions))))
    return troubles
