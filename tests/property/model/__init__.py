"""The model: readers in a simulated world, and whether one of them loses a record by our hand.

`agents` are the readers, each with a position of its own. `world` is two clusters, their clocks
and all that befalls them; `failures` is what breaks. `harm` judges each request from the readers'
side. `daemon` drives retentiond through its entry points: the one file that knows how a cycle is
run. `walk` makes random lives, and shortens one that ends badly.

Only `daemon` and `audited` know more of retentiond than its port and its configuration. Who reads,
what is old, which cluster and which topic is the world's to say.
"""
