"""The layers of evo/, for the test that holds them and the one that compares the drawing in docs/design.md."""

from __future__ import annotations

# A room (a file or folder of evo/) imports only from rooms on the lines above its own. A new room needs a line here.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "results"),
    ("files",),
    ("spec",),
    ("cuda", "decide", "sim"),
    ("device", "analysis", "records"),
    ("evaluate",),
    ("operators",),
    ("search",),
    ("audit", "interop"),
    ("api", "cli"),
)
