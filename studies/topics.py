"""Labelled sentences to cluster: each topic has its own nouns, and all topics share the
sentence patterns.

So sentences are alike in two ways, by what they are about and by how they are built,
and only the first is the label.
"""

import numpy as np

from hardmax._types import IntArray

TOPICS = {
    "cooking": (
        "tomato soup, roast chicken, sourdough bread, lentil stew, apple pie, garlic"
        " butter, mushroom risotto, pancake batter, pickled onions"
    ),
    "football": (
        "penalty kick, goalkeeper, midfield pass, offside rule, cup final, league"
        " table, free kick, striker's header, half-time score"
    ),
    "space": (
        "moon landing, orbit of Mars, rocket engine, space telescope, solar wind,"
        " asteroid belt, rings of Saturn, lunar rover, weightless astronaut"
    ),
    "banking": (
        "mortgage rate, savings account, credit card fee, bank transfer, loan contract,"
        " share price, tax refund, exchange rate, monthly overdraft"
    ),
    "gardening": (
        "rose bush, compost heap, tulip bulbs, garden hose, lawn mower, vegetable bed, "
        "hedge trimming, greenhouse seedlings, weeds along the path"
    ),
    "medicine": (
        "blood test, flu vaccine, broken wrist, heart surgery, migraine tablets,"
        " allergy symptoms, physiotherapy session, infected wound, high blood pressure"
    ),
    "music": (
        "violin concerto, drum solo, jazz chord, piano lesson, opera singer, guitar"
        " riff, string quartet, choir rehearsal, bass line"
    ),
    "computing": (
        "database query, memory leak, Python script, network router, unit test,"
        " compiler warning, corrupted hard disk, login password, sorting algorithm"
    ),
}
SHORT = ("{}", "more about the {}", "the {} again")
WAYS = (
    "Yesterday we talked about the {} for an hour.",
    "My sister knows nothing about the {}.",
    "Is there a good book on the {}?",
    "The {} was worse than anybody had expected.",
    "Nobody could explain the {} to me.",
    "I took three photographs of the {}.",
    "They argued about the {} until midnight.",
    "Please write two pages on the {} by Friday.",
)


def sentences(ways: tuple[str, ...] = WAYS) -> tuple[list[str], IntArray]:
    """All things in each of these ways, and the number of each one's topic."""
    pairs = [
        (topic, thing)
        for topic, things in enumerate(TOPICS.values())
        for thing in things.split(", ")
    ]
    texts = [way.format(thing) for way in ways for _, thing in pairs]
    return texts, np.array([topic for topic, _ in pairs] * len(ways))
