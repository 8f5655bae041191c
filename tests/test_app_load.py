"""The app over websockets, without a browser: several visitors, many who come and go, and forged messages."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("panel")

from studies import app_load
from studies.app_load import Refused, Trouble, Visitor
from tornado.ioloop import IOLoop

from hardmax._errors import InputError
from hardmax.app.app import serve
from hardmax.app.scene import Scene
from hardmax.app.store import Store
from hardmax.app.views import MOST_BYTES, Playground
from hardmax.app.work import takes_long

LINGERING = 0.5  # seconds


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """An app in a thread of this process, that forgets soon."""
    made: list[Any] = []
    ready = threading.Event()

    def run() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        made.append(serve(lingering=LINGERING))
        made[0].start()
        made[0].io_loop.add_callback(ready.set)
        made[0].io_loop.start()

    thread = threading.Thread(target=run, daemon=True)  # whatever becomes of it, the suite ends
    thread.start()
    assert ready.wait(60)
    yield made[0]
    loop: IOLoop = made[0].io_loop
    loop.add_callback(made[0].stop)
    loop.add_callback(loop.stop)
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def address(server: Any) -> str:
    return f"http://127.0.0.1:{server.port}"


def test_several_drag_at_once_and_every_answer_is_right(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_load, "SAMPLED", 1)
    seen = asyncio.run(app_load.drag_together(address, 3, 30, 2.0))
    assert seen.troubles == []
    assert len(seen.steps) > 3
    assert len(seen.ends) >= 5  # three let go, and two of them have a slider
    assert {scene.rule for scene, _ in seen.sample} == {"hardmax", "softmax"}
    assert seen.wrong == 0


def test_a_wrong_answer_is_noticed() -> None:
    scene = app_load.scene_of(0, 30)
    leaders = app_load.leaders_of(scene)
    assert app_load.Seen(sample=[(scene, leaders), (scene, leaders[1:])]).wrong == 1


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "drag", "token": 0, "place": [10**400, 0]},
        {"kind": "drag", "token": 10**400, "place": [0, 0]},
        {"kind": "select", "token": 10**400},
        {"kind": "show", "layer": -(10**400)},
    ],
)
def test_numbers_that_no_float_holds_get_a_sentence(message: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="must be"):
        Store(Scene.of_cloud("triangle")).handle(message)


@pytest.fixture
def _nothing_is_noted() -> Iterator[None]:
    """Else pytest would keep the notes of Panel, and they what they are about."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.usefixtures("_nothing_is_noted")
def test_those_who_leave_are_forgotten(server: Any, address: str) -> None:
    assert asyncio.run(app_load.come_and_go(address, 10, 30)) == []
    end = time.monotonic() + 60
    while server.get_sessions() and time.monotonic() < end:
        time.sleep(0.1)
    assert server.get_sessions() == []
    while living() > 1 and time.monotonic() < end:
        time.sleep(0.1)
    assert living() <= 1  # a thread may still hold what it did last


def living() -> int:
    """Playgrounds that memory holds."""
    gc.collect()
    return sum(issubclass(type(each), Playground) for each in gc.get_objects())  # a proxy would answer for another


NAN = {"type": "number", "value": "nan"}


def _map(**values: Any) -> dict[str, Any]:
    """Names and values, as Bokeh writes them."""
    return {"type": "map", "entries": [list(item) for item in values.items()]}


FORGED = [
    "no names and values",
    7,
    None,
    ["drag", 0],
    _map(kind="__class__", seq=1),
    _map(kind="__import__('pathlib').Path('executed').touch()", seq="1"),
    _map(kind=["drag"], seq=_map(a=1)),
    _map(kind="drag", token=0, place=[NAN, 0]),
    _map(kind="drag", token=0, place=[1e308, -1e308]),
    _map(kind="drag", token=0, place=[10**400, 0]),
    _map(kind="drag", token=10**4000, place=[0, 0]),
    _map(kind="drag", token="9" * 100_000, place=[0, 0]),
    _map(kind="drag", token=list(range(100_000)), place=[0, 0]),
    _map(kind="drag", token=0, place=list(range(100_000))),
    _map(kind="pull", axis=NAN, place=[0, 1]),
    _map(kind="select", token=NAN),
    _map(kind="select", token=10**400),
    _map(kind="show", layer=-(10**30)),
    {"type": "object", "name": "os.system", "id": "p1", "attributes": {"command": "touch executed"}},
]


async def _looked(visitor: Visitor) -> Any:
    """The scene, after what the server had to say of messages before."""
    while True:
        with suppress(Refused):
            return await visitor.ask({"kind": "look"})


def test_forged_messages_change_nothing(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scene = Scene.of_cloud("gaussian", n=30)

    async def forge() -> None:
        visitor = await app_load.arrive(address, scene)
        plane = visitor.models["Plane"]
        for message in FORGED:
            await visitor.change(plane, "request", message)
        for model, attribute in (
            ("p0", "request"),
            (plane, "__class__"),
            (plane, "_esm"),
            (visitor.models["Time"], "value"),
        ):
            await visitor.change(model, attribute, "executed")
        answer = await _looked(visitor)
        assert (answer.header["n"], answer.header["leaders"]) == (30, app_load.leaders_of(scene))
        answer = await visitor.drag(3, (0.5, 0.25))
        assert answer.header["leaders"] == app_load.leaders_of(visitor.scene)
        await visitor.close()

    asyncio.run(forge())
    assert list(tmp_path.iterdir()) == []


def test_a_socket_that_speaks_nonsense_is_closed_and_the_others_go_on(address: str) -> None:
    async def speak() -> None:
        other = await app_load.arrive(address, app_load.scene_of(0, 30))
        for nonsense in ("{", "1" * (2 * MOST_BYTES + 1)):
            visitor = await Visitor.open(address, Scene.of_cloud("triangle"))
            with pytest.raises(Trouble, match="closed"):  # noqa: PT012
                for _ in range(3):
                    await visitor.speak(nonsense)
                await visitor.ask({"kind": "look"})
            await visitor.close()
        assert (await other.drag(3, (0.5, 0.25))).header["leaders"] == app_load.leaders_of(other.scene)
        await other.close()

    asyncio.run(speak())


def test_what_takes_long_stands_in_another_line() -> None:
    scene = Scene.of_cloud("gaussian", n=200)
    assert not takes_long(scene, final=False)
    assert not takes_long(scene, final=True)
    assert not takes_long(scene.changed(rule="softmax"), final=True)
    assert takes_long(scene.changed(layers=200), final=True)
    assert takes_long(scene.changed(rule="softmax", layers=200), final=False)
    assert takes_long(scene.changed(rule="sphere"), final=False)
    assert takes_long(Scene.of_cloud("gaussian", n=20_000), final=True)
