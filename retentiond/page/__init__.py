"""The status page: what an operator sees at `/`.

Rendered on the server as a whole, from the last report and two read-only looks into
``state_dir``; it needs no script, and with one it renews itself.

Invariant: names of topics and groups, and sentences that quote them, are hostile text. They
reach the page through Jinja's escaping only (`render`), never as markup.
"""
