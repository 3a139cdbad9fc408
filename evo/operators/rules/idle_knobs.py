"""Knobs that a kernel written anew no longer uses, with their lines."""

from __future__ import annotations

import re

_KNOB = re.compile(r"(?m)^[ \t]*//[ \t]*evo:[ \t]*knob[ \t]+(\w+)\b.*\n")
_REQUIRE = re.compile(r"(?m)^[ \t]*//[ \t]*evo:[ \t]*require\b(.*)\n")
# An annotation is none, and divides by `//` too.
_COMMENT = re.compile(r"(^[ \t]*//[ \t]*evo:[^\n]*)|//[^\n]*|/\*.*?\*/", re.DOTALL | re.MULTILINE)


def _definitions(name: str) -> re.Pattern[str]:
    """The lines that give a knob its value, as a macro or as a constant."""
    constant = rf"(?:static[ \t]+)?(?:constexpr|const)[ \t]+(?:unsigned[ \t]+)?int[ \t]+{name}[ \t]*=[^;,\n]*;[ \t]*"
    return re.compile(rf"(?m)^[ \t]*(?:#[ \t]*define[ \t]+{name}\b.*|{constant})\n")


def without_idle_knobs(parent: str, text: str) -> str:
    """Without the knobs that the parent's code used and the text's code does not, and what they require."""
    before = set(_KNOB.findall(parent))
    idle = {name for name in _KNOB.findall(text) if name in before and _is_idle(name, text, parent)}
    for requirement in _REQUIRE.findall(text):  # a condition on others too keeps its knobs
        names = set(re.findall(r"[A-Za-z_]\w*", requirement)) & set(_KNOB.findall(text))
        if names - idle:
            idle -= names
    for name in idle:
        text = re.sub(rf"(?m)^[ \t]*//[ \t]*evo:[ \t]*knob[ \t]+{name}\b.*\n", "", text)
        text = _definitions(name).sub("", text)
        text = re.sub(rf"(?m)^[ \t]*//[ \t]*evo:[ \t]*require\b.*\b{name}\b.*\n", "", text)
    return text


def _is_idle(name: str, text: str, parent: str) -> bool:
    return _uses(name, parent) > 0 and _uses(name, text) == 0


def _uses(name: str, text: str) -> int:
    """Uses in code and in launch lines."""
    code = _REQUIRE.sub("", _KNOB.sub("", _COMMENT.sub(lambda found: found[1] or "", text)))
    return len(re.findall(rf"\b{name}\b", _definitions(name).sub("", code)))
