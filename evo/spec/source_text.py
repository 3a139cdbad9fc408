"""The text of a file that a person wrote: UTF-8, what older editors left, or why it is no text."""

from __future__ import annotations

from pathlib import Path

from evo.errors import SyntaxInvalid

_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))  # editors on Windows
_KINDS = (
    (b"\x7fELF", "a program or library"),
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "a zip"),
    (b"\x89PNG", "a picture"),
)
_CONTROLS = bytes({*range(32)} - {*b"\t\n\x0b\x0c\r\x1a\x1b"})
_TEXT = 1000  # characters, of which one may be a control character by accident
_NAMED = 4  # files of a folder


def near_file(path: Path) -> Path | None:
    """The file beside it whose name is most like its name, of the same kind; None if none is."""
    from difflib import get_close_matches

    found = get_close_matches(path.name, (each.name for each in path.parent.glob(f"*{path.suffix or '.cu'}")), n=1)
    return path.with_name(found[0]) if found else None


def read_source(path: Path, *, wanted: str = "a .cu file", problem: str = "") -> str:
    """The text of a file. Bytes that are no UTF-8 are taken for Latin-1, which only comments and strings hold.

    wanted: what the user should give instead. Raises SyntaxInvalid that names the file, for a folder and a binary too.
    """
    hint = f"give the path of {wanted}"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if path.parts[0] in ("http:", "https:"):
            hint = f"evo opens no address: download the plain text first (`curl -LO`), then give {path.name}"
        elif (meant := near_file(path)) is not None:
            hint = f"did you mean {meant}?"
        raise SyntaxInvalid(path, None, "no such file", hint=hint, problem=problem or "no-file") from None
    except IsADirectoryError:
        inside = _inside(path, wanted)
        raise SyntaxInvalid(
            path, None, "is a folder, not a file", hint=f"{hint}{inside}", problem=problem or "a-folder"
        ) from None
    except OSError as error:
        words = f"cannot be read: {error.strerror or error}"
        raise SyntaxInvalid(path, None, words, hint="check the permissions of the file", problem=problem) from None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if (rest := data.translate(None, _CONTROLS)) != data:
        kind = next((f" ({words})" for start, words in _KINDS if data.startswith(start)), "")
        if not kind and len(data) - len(rest) <= max(1, len(data) // _TEXT):
            at = next(number for number, byte in enumerate(data) if byte in _CONTROLS)
            line, words = data.count(b"\n", 0, at) + 1, f"holds a control character (byte {data[at]})"
            raise SyntaxInvalid(path, line, words, hint="remove it, or save the file as text again", problem="binary")
        raise SyntaxInvalid(path, None, f"is a binary file{kind}, not text", hint=hint, problem=problem or "binary")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _inside(folder: Path, wanted: str) -> str:
    """Files of the folder that may be meant."""
    suffix = next((word for word in wanted.split() if word.startswith(".")), "")
    try:
        found = sorted(each.name for each in folder.iterdir() if each.name.endswith(suffix) and each.is_file())
    except OSError:
        return ""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"; it holds {', '.join(found[:_NAMED])}{more}" if suffix and found else ""


def at_commas(text: str, brackets: tuple[str, str] = ("<([", ">)]")) -> list[str]:
    """The parts of a list: split at commas outside of brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in brackets[0]) - (sign in brackets[1])
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]
