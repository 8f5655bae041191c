"""What `HardmaxTopics` says of its topics: a sentence, tables, JSON and a page."""

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import ParameterError, needed_for
from hardmax._files import check_ending, save_text
from hardmax.cluster.topic import shortened
from hardmax.text.files import WRITABLE, write_frame

if TYPE_CHECKING:
    from pandas import DataFrame

    from hardmax.cluster.topics import HardmaxTopics
    from hardmax.draw.pages import Page

ENDINGS = (".html", ".json", *WRITABLE)
NAMED, MOST_ROWS = 5, 20  # topics in a sentence, and in a table
HEAD = ("topic", "texts", "telling words", "led by")


def sentence(found: "HardmaxTopics") -> str:
    """How many topics of how many texts, the largest by name, and how many texts are in none."""
    topics, n = found.topics_, len(found.texts_)
    named = ", ".join(f"{topic.name} ({topic.size:,})" for topic in topics[:NAMED])
    more = f" and {len(topics) - NAMED} more" if len(topics) > NAMED else ""
    none = int((found.labels_ < 0).sum())
    alone = f"; {none:,} in none" if none else ""
    plural = "s" * (len(topics) != 1)
    return f"{len(topics)} topic{plural} of {n:,} text{'s' * (n != 1)}; {named}{more}{alone}."


def frame(found: "HardmaxTopics", of: str) -> "DataFrame":
    """A row for each text or topic."""
    if of not in ("texts", "topics"):
        raise ParameterError("of", "be texts or topics", f"{of!r}")
    with needed_for("`HardmaxTopics.to_frame`", "pandas", "encoders"):
        import pandas
    if of == "texts":
        n = len(found.texts_)
        leads = np.isin(np.arange(n), found.leaders_)
        columns = {"row": range(1, n + 1), "topic": found.labels_, "strength": found.strengths_, "leads": leads}
        return pandas.DataFrame(columns | {"text": found.texts_})
    rows = [
        {
            "topic": topic.number,
            "size": topic.size,
            "strength": topic.strength,
            "words": ", ".join(word for word, _ in topic.words),
            "leader": topic.leader,
        }
        for topic in found.topics_
    ]
    return pandas.DataFrame(rows)


def result(found: "HardmaxTopics") -> dict[str, Any]:
    """Everything as plain data; rows are counted from 1, as in the table."""
    topics = [
        {
            "topic": topic.number,
            "size": topic.size,
            "strength": topic.strength,
            "leader": topic.leader,
            "leader_row": int(row) + 1,
            "exemplars": list(topic.exemplars),
            "words": [word._asdict() for word in topic.words],
        }
        for topic, row in zip(found.topics_, found.leaders_, strict=True)
    ]
    return {
        "texts": len(found.texts_),
        "in_none": int((found.labels_ < 0).sum()),
        "certified": bool(found.clustering_.certified_),
        "topics": topics,
        "labels": found.labels_.tolist(),
        "strengths": found.strengths_.tolist(),
    }


def as_json(found: "HardmaxTopics") -> str:
    """The same in JSON."""
    return json.dumps(result(found), ensure_ascii=False)


def rows(found: "HardmaxTopics", most: int = MOST_ROWS) -> list[tuple[str, ...]]:
    """The largest topics as rows under `HEAD`."""
    return [
        (str(topic.number), f"{topic.size:,}", ", ".join(word for word, _ in topic.words), shortened(topic.leader))
        for topic in found.topics_[:most]
    ]


def card(found: "HardmaxTopics") -> str:
    """What a notebook shows."""
    from hardmax.draw.pages import card

    return card(sentence(found), head=HEAD, rows=rows(found))


def page(found: "HardmaxTopics", title: str) -> "Page":
    """The page of `draw.topics_page`."""
    from hardmax.draw.topics_page import topics_page

    return topics_page(found, title, sentence(found))


def save(found: "HardmaxTopics", path: str | PathLike[str]) -> None:
    """Write a file by its ending."""
    ending = check_ending(path, ENDINGS)
    if ending in WRITABLE:
        write_frame(frame(found, "texts"), Path(path))
    else:
        save_text(as_json(found) if ending == ".json" else str(page(found, "Topics")), path)
