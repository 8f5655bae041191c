"""One visitor's playground: the scene, how to undo, and what messages of the plane do to it."""

from collections.abc import Mapping
from typing import Any

from hardmax._errors import InputError, ParameterError
from hardmax.app.answers import pulled
from hardmax.app.scene import Scene

MOST_UNDONE = 200


class Store:
    """A scene that changes, step by step; every step can be undone."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._past: list[Scene] = []
        self._future: list[Scene] = []
        self._before: Scene | None = None  # what a drag began with

    @property
    def can_undo(self) -> bool:
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        return bool(self._future)

    def set(self, scene: Scene, *, remember: bool = True) -> None:
        """Go on with another scene, from which one can come back."""
        if remember:
            self._past = [*self._past, self._before or self.scene][-MOST_UNDONE:]
            self._future = []
        self.scene, self._before = scene, None

    def change(self, **values: Any) -> None:
        """Go on with other values."""
        self.set(self.scene.changed(**values))

    def undo(self) -> None:
        if self._past:
            self._future.append(self.scene)
            self.scene, self._before = self._past.pop(), None

    def redo(self) -> None:
        if self._future:
            self._past.append(self.scene)
            self.scene = self._future.pop()

    def handle(self, message: Any) -> bool:
        """Do what a message of the plane asks for; True if that is the end of it, and not one step of a drag.

        A message may be forged: whatever it holds is checked, and refused in a sentence.
        """
        if not isinstance(message, Mapping):
            raise InputError("A message must be names and values. Got something else.")
        kind, final = message.get("kind"), message.get("final", True) is not False
        if kind == "drag":
            self._drag(self.scene.moved(message.get("token", -1), self._place(message)), final)
        elif kind == "pull":
            axis = message.get("axis")
            if axis not in (0, 1) or self.scene.d != 2:
                raise ParameterError("axis", "be 0 or 1, in the plane", repr(axis)[:40])
            self._drag(self.scene.changed(A=pulled(self.scene, axis, self._place(message))), final)
        elif kind == "add":
            self.set(self.scene.added(self._place(message)))
        elif kind == "delete":
            self.set(self.scene.without(message.get("token", -1)))
        elif kind == "select":
            self.set(self.scene.changed(selected=message.get("token", -1)), remember=False)
        elif kind == "show":
            self.set(self.scene.changed(shown=message.get("layer", 0)), remember=False)
        elif kind in ("undo", "redo"):
            self.undo() if kind == "undo" else self.redo()
        elif kind != "look":  # which asks for the scene as it is
            raise ParameterError("kind", "be something that the plane can do", repr(kind)[:40])
        return final

    def _drag(self, scene: Scene, final: bool) -> None:
        if final:
            self.set(scene)
        else:
            self._before, self.scene = self._before or self.scene, scene

    def _place(self, message: Mapping[str, Any]) -> Any:
        place = message.get("place")
        pair = place if isinstance(place, list | tuple) else ()
        if len(pair) != 2 or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in pair):
            raise ParameterError("place", "be two numbers", repr(place)[:40])
        if self.scene.d > 2:
            raise InputError("Tokens are moved in the plane. These have more dimensions. Take a cloud with d = 2.")
        return Scene.checked(tokens=[list(pair)]).tokens[0, : self.scene.d]
