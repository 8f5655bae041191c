"""What the address of a page says of it. See `address.js`."""

from pathlib import Path
from typing import Any

import param
from panel.custom import AnyWidgetComponent

from hardmax.app.links import to_link


class Address(AnyWidgetComponent):
    """Keeps the state of a page in its address."""

    parameter = param.String(default="s")
    letters = param.String(default="")
    known = param.Boolean(default=False, doc="Whether there is something to say yet.")
    dark = param.Boolean(default=False)

    _esm = Path(__file__).with_name("address.js")

    def say(self, data: Any) -> bool:
        """Put data into the address; False where they are too large for it, or none."""
        link = to_link(data) if data is not None else ""
        self.param.update(letters=link, known=True)
        return bool(link)
