"""Tokens of PTX text and the operands they form: the part of the parser that knows nothing of statements."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Container

from evo.sim.errors import PtxError, UnsupportedInstruction
from evo.sim.ptx.ast import Imm, Mem, Not, Operand, Pair, PtxFunction, PtxModule, Reg, Sink, Special, Sym, Vec

# A directive for a line of the source is one token: a third of the others stand in such. Then names and punctuation,
# which most tokens are; blanks belong to what follows them.
_TOKEN = re.compile(
    r"""[ \t\r]*+(?:(?P<loc>\.loc[ \t]++\d++[ \t]++(?P<here>\d++)[ \t]++\d++(?:,[ \t]*+function_name[ \t]++[\w$]++,"""
    r"""[ \t]*+inlined_at[ \t]++\d++[ \t]++(?P<call>\d++)[ \t]++\d++)?+(?=[ \t\r]*+\n))"""
    r"""|(?P<id>\.[A-Za-z_]\w*|%?[A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z0-9_$][\w$]*)*)"""
    r"""|(?P<p>[{}()\[\];:,<>@!|=+\-~&*%])|(?P<nl>\n)"""
    r"""|(?P<flt>0[fF][0-9a-fA-F]{8}(?![\w])|0[dD][0-9a-fA-F]{16}(?![\w])|\d+\.\d+(?:[eE][-+]?\d+)?)"""
    r"""|(?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)"""
    r"""|(?P<str>"[^"\n]*")|(?P<skip>//[^\n]*|/\*.*?\*/))""",
    re.X | re.S,
)
_BLANKS = " \t\r"
_SPECIAL = {"tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "clock",
            "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi", "lanemask_eq", "lanemask_lt",
            "lanemask_le", "lanemask_gt", "lanemask_ge", "dynamic_smem_size", "total_smem_size",
            "aggr_smem_size", "reserved_smem_offset_begin", "is_explicit_cluster", "clusterid", "nclusterid",
            "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank", "envreg0"}  # fmt: skip


_OPERATORS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"|": operator.or_}, {"&": operator.and_}, {"<": operator.lshift, ">": operator.rshift},
    {"+": operator.add, "-": operator.sub}, {"*": operator.mul},
)  # fmt: skip


class Cursor:
    """A cursor over tokens with the state of the function being read."""

    def __init__(self, text: str, mnemonics: Container[str]) -> None:
        self.mnemonics = mnemonics
        self.lines = text.split("\n")
        self.tokens: list[tuple[str, str, int]] = []
        self._tokenise(text)
        self.at = 0
        self.program = PtxModule()
        self.function: PtxFunction | None = None
        self.scopes: list[dict[str, str]] = []
        self.known: dict[str, Reg] = {}  # registers of the function that have been read, by their own names
        self.unique = 0
        self.loc = 0
        self.debug = False
        self.selector = ""  # of the operand just read: `%r1.b0` is a byte of a register

    def _tokenise(self, text: str) -> None:
        line, position = 1, 0
        append = self.tokens.append
        for found in _TOKEN.finditer(text):
            if found.start() != position:
                break
            position = found.end()
            kind = found.lastgroup
            assert kind is not None
            if kind == "nl":
                line += 1
            elif kind == "loc":  # what was inlined belongs to the line of its call
                append((kind, found["call"] or found["here"], line))
            elif kind == "skip":  # a comment may hold lines
                line += found[kind].count("\n")
            else:
                append((kind, found[kind], line))
        position = len(text) - len(text[position:].lstrip(_BLANKS))
        if position < len(text):
            raise PtxError(f"unexpected character {text[position]!r}", line=line, text=self.line_text(line))
        append(("end", "", line))

    def line_text(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def fail(self, problem: str) -> PtxError:
        line = self.tokens[min(self.at, len(self.tokens) - 1)][2]
        return PtxError(problem, line=line, text=self.line_text(line))

    @property
    def peek(self) -> str:
        return self.tokens[self.at][1]

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    def take(self) -> str:
        kind, text, _ = self.tokens[self.at]
        if kind == "end":
            raise self.fail("the text ends too early")
        self.at += 1
        return text

    def expect(self, text: str) -> None:
        kind, found, _ = self.tokens[self.at]
        if found != text or kind == "end":
            raise self.fail(f"expected {text!r}, found {found!r}")
        self.at += 1

    def accept(self, text: str) -> bool:
        kind, found, _ = self.tokens[self.at]
        if found == text and kind != "end":
            self.at += 1
            return True
        return False

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        if self.kind != "int":
            raise self.fail(f"expected an integer, found {self.peek!r}")
        return sign * integer_of(self.take())

    def expression(self, level: int = 0) -> int:
        """A constant expression of integers: the operators of C that have a token here, loosest first."""
        if level == len(_OPERATORS):
            return self._term()
        value = self.expression(level + 1)
        while self.kind == "p" and self.peek in _OPERATORS[level]:
            sign = self.take()
            if sign in "<>":
                self.expect(sign)  # a shift
            right = self.expression(level + 1)
            if sign in "<>" and not 0 <= right < 64:
                raise self.fail(f"a shift by {right}")
            value = _OPERATORS[level][sign](value, right)
        return value

    def _term(self) -> int:
        if self.accept("-"):
            return -self._term()
        if self.accept("~"):
            return ~self._term()
        if self.accept("("):
            value = self.expression()
            self.expect(")")
            return value
        return self.integer()

    def skip_statement(self) -> None:
        self.skip_to(";")

    def skip_to(self, end: str) -> None:
        while self.take() != end:
            pass

    # Operands -----------------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def operand(self) -> Operand:
        first = self._simple()
        if self.accept("|"):
            return Pair(first, self._simple())
        return first

    def _simple(self) -> Operand:
        kind, text, _ = self.tokens[self.at]
        if kind == "id" and text != "_":  # most are
            return self._name()
        if text == "{" and kind == "p":
            self.at += 1
            items = [self.operand()]
            while self.accept(","):
                items.append(self.operand())
            self.expect("}")
            return Vec(tuple(items))
        if text == "[" and kind == "p":
            return self._address()
        if text == "!" and kind == "p":
            self.at += 1
            inner = self._simple()
            if not isinstance(inner, Reg):
                raise self.fail("only a predicate register can be negated")
            return Not(inner)
        if text == "-" and kind == "p" and self.tokens[self.at + 1][0] == "flt":
            self.at += 1
            value = self._simple()
            assert isinstance(value, Imm)
            return Imm(value.value ^ 1 << (63 if value.kind == "f64" else 31), value.kind)
        if kind == "int" or (kind == "p" and text in ("-", "(", "~")):
            return Imm(self.expression())
        if kind == "flt":
            self.at += 1
            return float_of(text, "f64" if "." in text else "f32" if text[1] in "fF" else "f64")
        if text == "_":
            self.at += 1
            return Sink()
        raise self.fail(f"unexpected {text!r} where an operand should be")

    def _name(self) -> Operand:
        text = self.take()
        resolved = self.resolve(text)
        if (known := self.known.get(resolved)) is not None:
            return known
        if self.function is not None and resolved in self.function.registers:
            return self.known.setdefault(resolved, Reg(resolved))
        if text[0] == "%":
            if text[1:].split(".")[0] in _SPECIAL:
                return Special(text[1:])
            if text.startswith(("%pm", "%envreg", "%reserved_smem")):
                return Special(text[1:])
            self.at -= 1
            base, _, part = text.rpartition(".")
            if re.fullmatch(r"[bh][0-7]+", part):
                if len(part) > 2:
                    line = self.tokens[self.at][2]
                    raise UnsupportedInstruction("operand selector", line=line, text=self.line_text(line))
                self.tokens[self.at] = ("id", base, self.tokens[self.at][2])
                self.selector = part
                return self._name()
            raise self.fail(f"register {text} is not declared")
        if text == "WARP_SZ":
            return Imm(32)
        offset = 0
        if self.peek in ("+", "-") and self.kind == "p":
            sign = 1 if self.take() == "+" else -1
            offset = sign * self.integer()
        return Sym(resolved, offset)

    def _address(self) -> Mem:
        self.expect("[")
        base: Reg | Sym | None = None
        offset = 0
        if self.kind == "int" or self.peek == "-":
            offset = self.integer()
        else:
            name = self._name()
            if isinstance(name, Sym):
                base, offset = Sym(name.name), name.offset
            elif isinstance(name, Reg):
                base = name
            else:
                raise self.fail("an address needs a register or a variable")
        while self.peek in ("+", "-") and self.kind == "p":
            sign = 1 if self.take() == "+" else -1
            offset += sign * self.integer()
        if not self.accept("]"):
            raise self.fail(f"expected ']', found {self.peek!r}")
        if not -(1 << 31) <= offset < 1 << 32:
            raise self.fail(f"offset {offset} does not fit 32 bits")
        return Mem(base, offset)


def integer_of(text: str) -> int:
    text = text.rstrip("U")
    if len(text) > 70:
        raise PtxError(f"integer {text[:20]}... is too long")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text[2:], 2)
    if len(text) > 1 and text[0] == "0" and set(text) <= set("01234567"):
        return int(text, 8)
    return int(text)


def float_of(text: str, element: str) -> Imm:
    if "." in text:
        kind = "d" if element == "f64" else "f"
        try:
            return Imm(int.from_bytes(struct.pack("<" + kind, float(text)), "little"), "f64" if kind == "d" else "f32")
        except OverflowError as error:
            raise PtxError(f"{text} is beyond .{element}") from error
    return Imm(int(text[2:], 16), "f32" if text[1] in "fF" else "f64")
