"""English function words, which say nothing of sentiment. Negations ("not") and degrees ("very") are not among them."""

_WORDS = """
a about above after again all also although am among an and another any are as at
be because been before being below between both br by
can could
did do does doing done down during
each either else etc ever every
for from further
had has have having he he'd he'll he's her here here's hers herself him himself his how how's however
i i'd i'll i'm i've if in indeed into is it it's its itself
just
let let's
many may me might mine more must my myself
now
of off often on once one onto or other others our ours ourselves out over own
per perhaps
same shall she she'd she'll she's should since so some somehow something sometimes somewhere still such
than that that's the their theirs them themselves then there there's therefore these they they'd they'll they're
they've this those though through thus to together toward towards
under until up upon us
via
was we we'd we'll we're we've were what what's whatever when when's where where's whether which while who who's
whole whom whose why why's will with within would
yet you you'd you'll you're you've your yours yourself yourselves
"""
ENGLISH = frozenset(_WORDS.split())
