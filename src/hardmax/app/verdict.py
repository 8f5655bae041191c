"""What an answer says in words: the verdict of the playground, as HTML that a screen reader can read, too."""

from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

PARTS = Path(__file__).with_name("parts.css").read_text(encoding="utf-8")  # how it looks
HEAD = (
    '<div class="hm-verdict" role="region" aria-label="Verdict" tabindex="0"><p class="hm-status" role="status">{}</p>'
)
OUTCOMES = {"holds": "good", "fails": "bad"}


def verdict(header: dict[str, Any]) -> str:
    """Status, limit points and theorems; everything escaped."""
    parts = [Markup(HEAD).format(header["status"])]
    for name in ("expected", "axes_said", "many_said", "unchecked_said", "unshown_said"):
        if header.get(name):
            parts.append(Markup("<p>{}</p>").format(header[name]))
    if header.get("points"):
        parts.append(_table("Where tokens end", ("point", "what it is", "since layer", "tokens"), header["points"]))
    if header.get("verdicts"):
        parts.append(Markup("<h2>Theorems</h2><dl>"))
        for each in header["verdicts"]:
            kind = OUTCOMES.get(each["outcome"], "other")
            line = '<dt>{}: <span class="hm-{}">{}</span></dt><dd>{}</dd>'
            parts.append(Markup(line).format(each["name"], kind, each["outcome"], each["reason"]))
        parts.append(Markup("</dl>"))
    return str(Markup("").join(parts) + Markup("</div>"))


def _table(title: str, columns: tuple[str, ...], rows: list[list[str]]) -> Markup:
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in columns)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row))
        for row in rows
    )
    return Markup("<h2>{}</h2><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(title, head, body)


def note(sentence: str, clashes: tuple[str, ...] = ()) -> str:
    """A sentence, and a list below it."""
    listed = Markup("").join(Markup("<li>{}</li>").format(clash) for clash in clashes)
    return str(
        Markup('<p role="status">{}</p>').format(escape(sentence))
        + (Markup("<ul>{}</ul>").format(listed) if clashes else "")
    )
