"""A load test of the app: `python -m studies.app_load [--visitors 20] [--seconds 60] [--sessions 200] [--record]`.

Visitors speak to the server over websockets, without a browser. They drag a token in a circle without a pause: one
question in flight, the next one a frame after the last or when the answer has arrived. Every two seconds they release
it, which also requests the verdict, and take the next token. The exit code is 1 if there was an error, a wrong
answer or a session that stayed. `--record` writes the results file and the table of README.md.
"""

import argparse
import asyncio
import json
import math
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple

import numpy as np
from benchmarks import report
from benchmarks.machine import RESULTS, ROOT, machine
from benchmarks.memory import resident
from bokeh.protocol import Protocol
from bokeh.protocol.receiver import Receiver
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

import hardmax as hm
from hardmax.app.packing import unpacked
from hardmax.app.scene import Scene

MARK = "<!-- made by python -m studies.app_load -->"
N = 200  # tokens
MAX_WAIT = 60.0  # seconds for an answer, and until closed sessions must be gone
FRAME, STROKE = 1 / 60, 2.0  # seconds of a frame, and from taking a token to releasing it
SAMPLED = 20  # one answer of this many is compared
AT_ONCE = 10  # sessions that are open together
ALPHA, TEMPERATURE = "alpha, the step", "Temperature (0 is hardmax)"  # labels of sliders
LONG = Scene.of_cloud("ball", n=300).changed(rule="self-attention", time=40.0)  # seconds of work
LONG_ONES = 8  # visitors of it: more than there are threads
PAGE = "/playground"
READY = {  # the message of a browser that has drawn the page
    "kind": "MessageSent",
    "msg_type": "bokeh_event",
    "msg_data": {"type": "event", "name": "document_ready", "values": {"type": "map"}},
}


class Trouble(Exception):
    """The app answered with an error, or not at all."""


class Refused(Trouble):
    """The app refused one message."""


class Answer(NamedTuple):
    """The header and arrays of an answer, and the seconds until it came."""

    header: dict[str, Any]
    arrays: dict[str, Any]
    seconds: float


class Visitor:
    """One visitor of the playground, without a browser: Bokeh's protocol over a websocket.

    Like the page it has one question in flight, each with a number that its answer repeats.
    """

    def __init__(self, socket: WebSocketClientConnection, scene: Scene) -> None:
        self.scene = scene  # as the server must have it
        self._socket = socket
        self._receiver = Receiver(Protocol())
        self._seq = 0
        self._open = True
        self.models: dict[str, str] = {}  # ids of models by label

    @classmethod
    async def open(cls, address: str, scene: Scene) -> "Visitor":
        """Fetch the page, whose token opens the socket, and the document, which has the ids of its models."""
        url = f"{address}{PAGE}?s={scene.to_link()}"
        try:
            page = await AsyncHTTPClient().fetch(url, request_timeout=MAX_WAIT, connect_timeout=MAX_WAIT)
            found = re.search(r'"token":"([^"]+)"', page.body.decode())
            if found is None:
                raise Trouble("The page has no token.")
            request = HTTPRequest(f"{address.replace('http', 'ws', 1)}{PAGE}/ws", connect_timeout=MAX_WAIT)
            socket = await websocket_connect(request, subprotocols=["bokeh", found[1]], max_message_size=10**8)
        except HTTPClientError as error:
            raise Trouble(f"The page does not open: {error}.") from None
        socket.protocol.set_nodelay(True)  # as browsers do: otherwise parts of a message are 40 ms apart
        visitor = cls(socket, scene)
        await visitor._message("ACK")
        await visitor._send("PULL-DOC-REQ", {})
        reply = await visitor._message("PULL-DOC-REPLY")
        visitor.models = dict(_models(reply.content["doc"]["roots"]))
        await visitor._send("PATCH-DOC", {"events": [READY]})
        return visitor

    async def close(self) -> None:
        """Close the socket and wait for the server."""
        self._socket.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_WAIT):
                while self._open and await self._socket.read_message() is not None:
                    pass

    async def drag(self, token: int, place: tuple[float, float], *, final: bool = False) -> Answer:
        """Move a token, as the page does for every frame of a drag."""
        self.scene = self.scene.moved(token, place)
        return await self.ask({"kind": "drag", "token": token, "place": list(place), "final": final})

    async def ask(self, message: dict[str, Any]) -> Answer:
        """Send a message to the plane and return the answer."""
        self._seq += 1
        return await self._answered("Plane", "request", {**message, "seq": self._seq})

    async def slide(self, label: str, value: float) -> Answer:
        """Move the slider with a label; the answer has the number of the last question."""
        return await self._answered(label, "value", value)

    async def change(self, model: str, attribute: str, new: Any) -> None:
        """Set an attribute of a model, without an answer."""
        event = {"kind": "ModelChanged", "model": {"id": model}, "attr": attribute, "new": new}
        await self._send("PATCH-DOC", {"events": [event]})

    async def _answered(self, name: str, attribute: str, new: Any) -> Answer:
        asked = time.perf_counter()
        await self.change(self.models[name], attribute, _encoded(new))
        while True:
            message = await self._message("PATCH-DOC")
            for event in message.content["events"]:
                if event.get("attr") == "answer" and event["model"]["id"] == self.models["Plane"]:
                    seconds = time.perf_counter() - asked
                    sent = {buffer.id: buffer.data for buffer in message.buffers}
                    header, arrays = unpacked(bytes(sent[event["new"]["data"]["id"]]))
                    if header["seq"] == self._seq:
                        return Answer(header, arrays, seconds)

    async def _send(self, kind: str, content: dict[str, Any]) -> None:
        for part in ({"msgid": str(time.perf_counter_ns()), "msgtype": kind}, {}, content):
            await self.speak(json.dumps(part))

    async def speak(self, part: str | bytes) -> None:
        """Send a part of a message."""
        try:
            await self._socket.write_message(part, binary=isinstance(part, bytes))
        except WebSocketClosedError:
            raise Trouble("The server closed the socket.") from None

    async def _message(self, kind: str) -> Any:
        """Return the next message of a kind."""
        while True:
            try:
                fragment = await asyncio.wait_for(self._socket.read_message(), MAX_WAIT)
            except TimeoutError:
                raise Trouble(f"No answer came within {MAX_WAIT:g} seconds.") from None
            if fragment is None:
                self._open = False
                raise Trouble("The server closed the socket.")
            message = await self._receiver.consume(fragment)
            if message is not None and message.msgtype == "ERROR":
                raise Refused(message.content["text"])
            if message is not None and message.msgtype == kind:
                return message


def _models(part: Any) -> Iterator[tuple[str, str]]:
    """Yield the label and the id of the plane and of every slider in a document."""
    if isinstance(part, dict):
        name, attributes = str(part.get("name", "")), part.get("attributes", {})
        if part.get("type") == "object" and re.fullmatch(r"(Plane|Slider)\d+", name):
            yield attributes.get("label", "Plane"), part["id"]
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _models(inner)


def _encoded(value: Any) -> Any:
    """Return a value as Bokeh encodes it."""
    return {"type": "map", "entries": [list(item) for item in value.items()]} if isinstance(value, dict) else value


@dataclass
class Seen:
    """What visitors measured."""

    steps: list[float] = field(default_factory=list)  # seconds until the answer to a step of a drag
    ends: list[float] = field(default_factory=list)  # until that to the end of a drag, or to a slider
    troubles: list[str] = field(default_factory=list)
    sample: list[tuple[Scene, list[int]]] = field(default_factory=list)

    def add(self, answer: Answer, scene: Scene, *, final: bool) -> None:
        times = self.ends if final else self.steps
        times.append(answer.seconds)
        if answer.header["error"]:
            self.troubles.append(answer.header["error"])
        elif len(times) % SAMPLED == 0:
            self.sample.append((scene, answer.header["leaders"]))

    @property
    def wrong(self) -> int:
        """Return the number of sampled answers whose leaders differ from `hm.simulate`."""
        return sum(leaders != leaders_of(scene) for scene, leaders in self.sample)


def leaders_of(scene: Scene) -> list[int]:
    """Return the leaders, computed without the app."""
    soft = scene.rule == "softmax"
    rule = hm.Softmax(scene.alpha, temperature=scene.temperature) if soft else hm.Hardmax(scene.alpha)
    return hm.simulate(scene.tokens, rule, layers=scene.layers).leaders.tolist()


def scene_of(number: int, n: int) -> Scene:
    """Return the scene of one of many visitors."""
    scene = Scene.of_cloud("gaussian", n=n, seed=number)
    return scene.changed(rule="softmax") if number % 4 == 1 else scene


async def dragging(visitor: Visitor, number: int, seconds: float, seen: Seen) -> None:
    """Drag tokens for some seconds."""
    end, token = time.perf_counter() + seconds, number % visitor.scene.n
    try:
        while time.perf_counter() < end:
            await _stroke(visitor, token, min(end, time.perf_counter() + STROKE), seen)
            await _slide(visitor, number, seen)
            token = (token + 1) % visitor.scene.n
    except Trouble as trouble:
        seen.troubles.append(str(trouble))


async def _stroke(visitor: Visitor, token: int, end: float, seen: Seen) -> None:
    """Drag a token in a circle and release it."""
    x, y = visitor.scene.tokens[token]
    place = (float(x), float(y))
    while (now := time.perf_counter()) < end:
        place = (float(x) + math.cos(3 * now), float(y) + math.sin(3 * now))
        seen.add(await visitor.drag(token, place), visitor.scene, final=False)
        await asyncio.sleep(max(0.0, now + FRAME - time.perf_counter()))
    seen.add(await visitor.drag(token, place, final=True), visitor.scene, final=True)


async def _slide(visitor: Visitor, number: int, seen: Seen) -> None:
    """Move the temperature (one visitor in four) or alpha (one in four)."""
    scene = visitor.scene
    if number % 4 == 1:
        label, visitor.scene = TEMPERATURE, scene.changed(temperature=round(scene.temperature % 1.9 + 0.1, 2))
        answer = await visitor.slide(label, visitor.scene.temperature)
    elif number % 4 == 2:
        label, visitor.scene = ALPHA, scene.changed(alpha=round(scene.alpha % 4 + 0.25, 2))
        answer = await visitor.slide(label, visitor.scene.alpha)
    else:
        return
    seen.add(answer, visitor.scene, final=True)


async def drag_together(address: str, visitors: int, n: int, seconds: float) -> Seen:
    """Let many visitors drag at once, after all have opened the page."""
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
    """Open the page and fetch the scene."""
    visitor = await Visitor.open(address, scene)
    await visitor.ask({"kind": "look"})
    return visitor


async def drag_beside_long_work(address: str, n: int, seconds: float) -> tuple[Seen, list[float]]:
    """Measure one who drags beside others whose every answer takes seconds, and return the seconds of those."""
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
    """Open and close sessions, some at a time, and return the errors."""
    troubles: list[str] = []

    async def once(number: int) -> None:
        try:
            await (await arrive(address, scene_of(number, n))).close()
        except Trouble as trouble:
            troubles.append(str(trouble))

    for first in range(0, sessions, AT_ONCE):
        await asyncio.gather(*(once(i) for i in range(first, min(first + AT_ONCE, sessions))))
    return troubles


@dataclass
class App:
    """A running app in its own process."""

    address: str
    process: "subprocess.Popen[str]"
    errors: IO[str]  # its standard error

    @property
    def megabytes(self) -> float:
        return resident("VmRSS", self.process.pid) / 1e3

    def count_sessions(self) -> int:
        """Return the number of sessions after those of closed sockets are gone, or after a minute."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        end, count = time.perf_counter() + MAX_WAIT, 1
        while count and time.perf_counter() < end:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            count = int(self.process.stdout.readline())
            time.sleep(0.5)
        return count


@contextmanager
def run_app() -> Iterator[App]:
    """Run an app for the time of a block."""
    command = [sys.executable, "-u", "-m", "studies.app_load", "--serve"]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
        )
        assert process.stdout is not None
        try:
            late = threading.Timer(2 * MAX_WAIT, process.kill)
            late.start()
            line = process.stdout.readline().strip()
            late.cancel()
            if not line:
                errors.seek(0)
                raise RuntimeError(f"The app did not start: {errors.read()}")
            yield App(line, process, errors)
        finally:
            process.kill()
            process.communicate()


def serve_and_count() -> None:
    """Serve the app; answer each line of standard input with the number of sessions."""
    from hardmax.app.app import serve

    server = serve()
    server.start()

    def answer() -> None:
        for _ in sys.stdin:
            print(len(server.get_sessions()), flush=True)

    threading.Thread(target=answer, daemon=True).start()
    print(f"http://127.0.0.1:{server.port}", flush=True)
    server.io_loop.start()


def _row(what: str, visitors: int, times: list[float], seconds: float, **more: Any) -> dict[str, Any]:
    median, most = (1e3 * np.quantile(times, (0.5, 0.95))).tolist() if times else (None, None)
    row = {"what": what, "visitors": visitors, "answers": len(times), "a second": len(times) / seconds}
    row |= {"median ms": median, "95th percentile ms": most, "most ms": 1e3 * max(times) if times else None}
    return row | dict.fromkeys(("errors", "wrong", "MB before", "MB after")) | more


def measure(visitors: int, seconds: float, sessions: int) -> dict[str, Any]:
    """Return all rows, and a sentence for each failure."""
    rows: list[dict[str, Any]] = []
    failures: list[str] = []

    def add(who: str, count: int, lasting: float, seen: Seen, before: float) -> None:
        memory = {"MB before": before, "MB after": app.megabytes}
        counts = {"errors": len(seen.troubles), "wrong": f"{seen.wrong} of {len(seen.sample)}"}
        rows.append(_row(f"step of a drag{who}", count, seen.steps, lasting, **counts, **memory))
        rows.append(_row(f"end of a drag, slider{who}", count, seen.ends, lasting))
        failures.extend(f"{count} visitors{who}: {sentence}" for sentence in sorted(set(seen.troubles))[:5])
        if seen.wrong or not seen.steps:
            failures.append(f"{count} visitors{who}: {seen.wrong} wrong answers of {len(seen.steps)}")

    with run_app() as app:
        asyncio.run(come_and_go(app.address, 1, N))  # compiles, and fills the caches
        for count in sorted({1, min(5, visitors), visitors}):
            lasting, before = seconds / (1 if count == visitors else 4), app.megabytes
            add("", count, lasting, asyncio.run(drag_together(app.address, count, N, lasting)), before)
        before = app.megabytes
        seen, long = asyncio.run(drag_beside_long_work(app.address, N, seconds / 4))
        took = f"{np.median(long):.1f}" if long else f"more than {seconds / 4:.1f}"
        add(f", beside {LONG_ONES} whose answers take {took} s", 1, seconds / 4, seen, before)
    with run_app() as app:
        asyncio.run(come_and_go(app.address, 1, N))
        before, start = app.megabytes, time.perf_counter()
        troubles = asyncio.run(come_and_go(app.address, sessions, N))
        spent, left = time.perf_counter() - start, app.count_sessions()
        numbers = {"answers": sessions - len(troubles), "a second": sessions / spent, "errors": len(troubles)}
        what = f"{sessions} sessions opened and closed, {left} left"
        rows.append(_row(what, AT_ONCE, [], spent, **numbers, **{"MB before": before, "MB after": app.megabytes}))
        failures += troubles[:5] + ([f"{left} of {sessions} sessions stayed"] if left else [])
        app.errors.seek(0)
        if re.search(r"^Traceback|ERROR", app.errors.read(), re.MULTILINE):
            failures.append("the server printed errors")
    return {"date": datetime.now(UTC).date().isoformat(), "rows": rows, "refused": failures}


def markdown(found: dict[str, Any]) -> str:
    """Return the table of README.md."""
    facts = {key: found["machine"][key] for key in ("processor", "cores", "hardmax", "Python", "numpy")}
    columns = {key: key for key in found["rows"][0]}
    return report.with_machine(found | {"machine": facts}, report.table(found["rows"], columns))


def main() -> int:
    """Run the load test, or the server that it loads."""
    parser = argparse.ArgumentParser(prog="python -m studies.app_load", description=__doc__)
    parser.add_argument("--visitors", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve_and_count()
        return 0
    found = {"machine": machine()} | measure(given.visitors, given.seconds, given.sessions)
    print(markdown(found), *found["refused"], sep="\n")
    if given.record:
        report.write(found, RESULTS / "app.json")
        report.fill_file(ROOT / "benchmarks" / "README.md", markdown(found), MARK)
    return 1 if found["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
