"""
Topics of comments, each led by a comment
=========================================

A pile of comments on a telephone: what do people write about? Sentences become vectors by MiniLM, whose weights come
with a Python package, and gather around sentences by hardmax. So a topic is not a list of words to be guessed at: it is
led by a comment that somebody wrote, beside the words that tell it from the other topics. Nothing is drawn by chance,
and nothing leaves the machine.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import cluster_colours

SENTENCES = """
The parcel arrived two days late. | Delivery took more than a week. | My package never reached me.
The courier left the box in the rain. | The shipment was delayed again. | Tracking said delivered, but nothing had come.
The box was delivered to my neighbour. | I waited at home all day for the courier.
The screen cracked after one drop. | There is a scratch on the display. | The phone's glass broke in my pocket.
The display flickers in the sun. | Half of the touchscreen does not respond. | Dead pixels appeared on the screen.
The battery is empty by noon. | It needs charging twice a day. | The battery drains even when the phone is off.
Charging takes the whole night. | The battery swelled after a month. | It does not last an hour without the charger.
The battery gets hot while charging.
Support answered within minutes. | The woman on the hotline was very patient. | Customer service solved it in one call.
A friendly agent explained every step to me. | The chat team helped me at once. | Nobody at the hotline picked up.
I want my money back. | The refund was on my account after three days. | They charged my card twice.
The invoice shows the wrong amount. | My refund is still missing. | I was billed for something I had returned.
The camera takes sharp pictures at night. | Photos look blurred in low light. | The zoom of the camera is impressive.
Portraits come out beautifully. | The lens fogs up in winter. | Videos are shaky without a tripod.
"""
sentences = [part.strip() for line in SENTENCES.strip().splitlines() for part in line.split("|")]

# %%
# A topic has about six sentences here, so each looks at its four nearest ones; for hundreds the default is better. With
# so few it matters: three neighbours leave one sentence alone, and six mix two topics.

found = hm.HardmaxTopics(6, n_neighbors=4).fit(sentences)
print(found)
for topic in found.topics_:
    print(f"\n{topic.leader}   ({topic.size} texts: {', '.join(word for word, _ in topic.words)})")
    for text in topic.exemplars[1:3]:
        print(f"    {text}")
assert found.clustering_.certified_
assert len(found.topics_) == 6

# %%
# The tokens of the model behind it have six coordinates, of which each topic has about one to itself. Each sentence is
# a row, in the order of the topics; a leader is the longest on its ray.

tokens, labels = found.clustering_.tokens_, found.labels_
lengths = np.linalg.norm(tokens, axis=1)
order = np.lexsort((-lengths, labels))
colours = np.array(cluster_colours(labels))
leaders = {topic.leader for topic in found.topics_}
figure, ax = plt.subplots(figsize=(10, 8), layout="constrained")
ax.barh(range(len(order)), lengths[order], color=colours[order], height=0.8)
ax.set_yticks(range(len(order)), [sentences[i] for i in order], fontsize=8)
for tick, i in zip(ax.get_yticklabels(), order, strict=True):
    tick.set_fontweight("bold" if sentences[i] in leaders else "normal")
ax.invert_yaxis()
ax.set(xlabel="length of the token; the longest of its topic leads, in bold")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# New comments follow the fitted ones, and none follows them.

new = ["The zoom is weak.", "The courier rang the wrong bell."]
for text, number in zip(new, found.predict(new), strict=True):
    print(f"New: {text} Like: {found.topics_[number].leader}")

# %%
# What to try
# -----------
# ``found.save("topics.html")`` writes a page with a map in which each text can be pointed at.
# ``hm.HardmaxTopics()`` without a number asks the density how many topics there are: of so few texts it sees fewer.
# ``hardmax topics comments.csv --column comment --out topics.html`` does all this for a file.
