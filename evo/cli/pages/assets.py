"""The page's look and scripts, which lie beside this module as files."""

from __future__ import annotations

from importlib.resources import files


def _asset(name: str) -> str:
    return files("evo.cli.pages").joinpath("static", name).read_text(encoding="utf-8").strip()


SVG_STYLE = _asset("drawing.css")  # enough for a drawing that stands alone
CSS = f"{_asset('page.css')}\n{SVG_STYLE}"
SCRIPT = _asset("page.js")
LIVE_SCRIPT = f"{SCRIPT}\n{_asset('live.js')}"  # of a page whose server tells it what is new
