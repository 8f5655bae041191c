"""Visitors of the app without a browser: they open the page and speak Bokeh's protocol over a websocket.

They do what the plane of the page does: one question in flight, each with a number, which its answer bears.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from bokeh.protocol import Protocol
from bokeh.protocol.receiver import Receiver
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from hardmax.app.packing import unpacked
from hardmax.app.scene import Scene

PATIENCE = 60.0  # seconds; the page asks again after eight
PAGE = "/playground"
READY = {  # what a browser says once it has drawn the page
    "kind": "MessageSent",
    "msg_type": "bokeh_event",
    "msg_data": {"type": "event", "name": "document_ready", "values": {"type": "map"}},
}


class Trouble(Exception):
    """The app said an error, or nothing."""


class Refused(Trouble):
    """It could not handle one message, and goes on."""


class Answer(NamedTuple):
    """What came, and how long after it was asked for."""

    header: dict[str, Any]
    arrays: dict[str, Any]
    seconds: float


class Visitor:
    """One visitor of the playground."""

    def __init__(self, socket: WebSocketClientConnection, scene: Scene) -> None:
        self.scene = scene  # as it must be on the other side
        self._socket = socket
        self._receiver = Receiver(Protocol())
        self._seq = 0
        self._open = True
        self.models: dict[str, str] = {}  # which number a model has, by its label or its kind

    @classmethod
    async def open(cls, address: str, scene: Scene) -> "Visitor":
        """Fetch the page, whose token opens the socket, and the document, which says the numbers of its models."""
        url = f"{address}{PAGE}?s={scene.to_link()}"
        try:
            page = await AsyncHTTPClient().fetch(url, request_timeout=PATIENCE, connect_timeout=PATIENCE)
            found = re.search(r'"token":"([^"]+)"', page.body.decode())
            if found is None:
                raise Trouble("The page has no token.")
            request = HTTPRequest(f"{address.replace('http', 'ws', 1)}{PAGE}/ws", connect_timeout=PATIENCE)
            socket = await websocket_connect(request, subprotocols=["bokeh", found[1]], max_message_size=10**8)
        except HTTPClientError as error:
            raise Trouble(f"The page does not open: {error}.") from None
        socket.protocol.set_nodelay(True)  # as browsers do: else the parts of a message wait 40 ms for each other
        made = cls(socket, scene)
        await made._message("ACK")
        await made._send("PULL-DOC-REQ", {})
        reply = await made._message("PULL-DOC-REPLY")
        made.models = dict(_models(reply.content["doc"]["roots"]))
        await made._send("PATCH-DOC", {"events": [READY]})
        return made

    async def close(self) -> None:
        """Leave, and wait until the server knows."""
        self._socket.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._open and await self._socket.read_message() is not None:
                    pass

    async def drag(self, token: int, place: tuple[float, float], *, final: bool = False) -> Answer:
        """Move a token, as the plane does for every frame of a drag."""
        self.scene = self.scene.moved(token, place)
        return await self.ask({"kind": "drag", "token": token, "place": list(place), "final": final})

    async def ask(self, message: dict[str, Any]) -> Answer:
        """Ask something of the plane, and wait for the answer."""
        self._seq += 1
        return await self._answered("Plane", "request", {**message, "seq": self._seq})

    async def slide(self, label: str, value: float) -> Answer:
        """Move the slider with that label; the answer bears the number of the last question."""
        return await self._answered(label, "value", value)

    async def change(self, model: str, attribute: str, new: Any) -> None:
        """Set an attribute of a model, and wait for nothing."""
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
        """Send a part of a message, whatever it is."""
        try:
            await self._socket.write_message(part, binary=isinstance(part, bytes))
        except WebSocketClosedError:
            raise Trouble("The server closed the socket.") from None

    async def _message(self, kind: str) -> Any:
        """The next message of a kind; those between are no news."""
        while True:
            try:
                fragment = await asyncio.wait_for(self._socket.read_message(), PATIENCE)
            except TimeoutError:
                raise Trouble(f"No answer came within {PATIENCE:g} seconds.") from None
            if fragment is None:
                self._open = False
                raise Trouble("The server closed the socket.")
            message = await self._receiver.consume(fragment)
            if message is not None and message.msgtype == "ERROR":
                raise Refused(message.content["text"])
            if message is not None and message.msgtype == kind:
                return message


def _models(part: Any) -> Iterator[tuple[str, str]]:
    """The plane and every slider in a document, with their numbers."""
    if isinstance(part, dict):
        name, attributes = str(part.get("name", "")), part.get("attributes", {})
        if part.get("type") == "object" and re.fullmatch(r"(Plane|Slider)\d+", name):
            yield attributes.get("label", "Plane"), part["id"]
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _models(inner)


def _encoded(value: Any) -> Any:
    """Names and values as Bokeh writes them."""
    return {"type": "map", "entries": [list(item) for item in value.items()]} if isinstance(value, dict) else value
