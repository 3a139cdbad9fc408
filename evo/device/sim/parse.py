"""PTX text -> Program. Registers and labels of nested scopes get unique names; nothing is executed or checked here."""

from __future__ import annotations

import re
import struct

from evo.device.sim.errors import PtxError, UnsupportedInstruction
from evo.device.sim.program import (
    WIDTH,
    Function,
    Imm,
    Mem,
    Not,
    Operand,
    Pair,
    Param,
    Program,
    Reg,
    Sink,
    Special,
    Sym,
    Variable,
    Vec,
)

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|//[^\n]*|/\*.*?\*/)|(?P<nl>\n)|(?P<str>"[^"\n]*")"""
    r"""|(?P<flt>0[fF][0-9a-fA-F]{8}(?![\w])|0[dD][0-9a-fA-F]{16}(?![\w])|\d+\.\d+(?:[eE][-+]?\d+)?)"""
    r"""|(?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)"""
    r"""|(?P<id>\.[A-Za-z_]\w*|%?[A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z0-9_$][\w$]*)*)|(?P<sink>_(?!\w))|(?P<p>[{}()\[\];:,<>@!|=+\-~&*%])""",
    re.X | re.S,
)
_SPECIAL = {"tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "clock",
            "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi", "lanemask_eq", "lanemask_lt",
            "lanemask_le", "lanemask_gt", "lanemask_ge", "dynamic_smem_size", "total_smem_size",
            "aggr_smem_size", "reserved_smem_offset_begin", "is_explicit_cluster", "clusterid", "nclusterid",
            "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank", "envreg0"}  # fmt: skip
_SPACES = ("global", "const", "shared", "local", "param")


class _Parser:
    """A cursor over tokens with the state of the function being read."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.tokens: list[tuple[str, str, int]] = []
        self._tokenise(text)
        self.at = 0
        self.program = Program()
        self.function: Function | None = None
        self.scopes: list[dict[str, str]] = []
        self.unique = 0
        self.loc = 0

    def _tokenise(self, text: str) -> None:
        line, position, end = 1, 0, len(text)
        append = self.tokens.append
        match = _TOKEN.match
        while position < end:
            found = match(text, position)
            if found is None:
                raise PtxError(f"unexpected character {text[position]!r}", line=line, text=self.line_text(line))
            kind = found.lastgroup or ""
            position = found.end()
            if kind == "nl":
                line += 1
            elif kind == "skip":
                line += found.group().count("\n")
            else:
                append((kind, found.group(), line))
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
        if self.kind == "end" or self.peek != text:
            raise self.fail(f"expected {text!r}, found {self.peek!r}")
        self.at += 1

    def accept(self, text: str) -> bool:
        if self.kind != "end" and self.peek == text:
            self.at += 1
            return True
        return False

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        if self.kind != "int":
            raise self.fail(f"expected an integer, found {self.peek!r}")
        return sign * _int(self.take())

    def skip_statement(self) -> None:
        while self.take() != ";":
            pass

    # Module level -------------------------------------------------------------------------------------------

    def module(self) -> Program:
        while self.kind != "end":
            word = self.take()
            if word == ".version":
                self.program.version = self.take()
            elif word == ".target":
                self.program.target = self.take()
                while self.accept(","):
                    self.take()
            elif word == ".address_size":
                if self.integer() != 64:
                    raise self.fail("only 64-bit addresses are supported")
            elif word == ".file":
                self._file()
            elif word == ".section":
                self._section()
            elif word == ".pragma":
                self.skip_statement()
            elif word in (".visible", ".extern", ".weak", ".entry", ".func", ".common") or word[1:] in _SPACES:
                self.at -= 1
                self._declaration()
            else:
                self.at -= 1
                raise self.fail(f"unexpected {word!r} at module level")
        return self.program

    def _file(self) -> None:
        number = self.integer()
        self.program.files[number] = self.take().strip('"')
        while self.accept(","):
            self.integer()

    def _section(self) -> None:
        while self.take() != "{":
            pass
        while self.take() != "}":
            pass

    def _declaration(self) -> None:
        extern = False
        while self.peek in (".visible", ".extern", ".weak", ".common"):
            extern |= self.take() == ".extern"
        if self.peek in (".entry", ".func"):
            self._function(self.take() == ".entry")
            return
        for variable in self._variables(self.take()[1:], extern):
            self.program.variables[variable.name] = variable

    def _variables(self, space: str, extern: bool = False) -> list[Variable]:
        if space not in _SPACES:
            raise self.fail(f"unknown state space .{space}")
        align, element, count = 0, "", 1
        while self.kind == "id" and self.peek.startswith("."):
            word = self.take()[1:]
            if word == "align":
                align = self.integer()
            elif word in ("v2", "v4"):
                count = int(word[1])
            elif word in WIDTH:
                element = word
            elif word == "ptr":
                continue
            else:
                raise self.fail(f"unknown variable attribute .{word}")
        if not element:
            raise self.fail("a variable needs a type")
        if element in ("b128", "pred"):
            raise UnsupportedInstruction(f".{space}.{element} variable", line=self.tokens[self.at][2])
        found = []
        while True:
            found.append(self._variable(space, align, element, count, extern))
            if not self.accept(","):
                break
        self.expect(";")
        return found

    def _variable(self, space: str, align: int, element: str, count: int, extern: bool) -> Variable:
        name = self.take()
        bytes_each = WIDTH[element] // 8
        total, open_ended = count, False
        while self.accept("["):
            if self.accept("]"):
                open_ended = True
                continue
            total *= self.integer()
            self.expect("]")
        init: bytes | None = None
        patches: list[tuple[int, str, int]] = []
        if self.accept("="):
            values: list[int | tuple[str, int]] = []
            self._initialiser(values, element)
            init, patches = _pack(values, element)
            if open_ended:
                total, open_ended = len(values), False
        size = 0 if open_ended else total * bytes_each
        if size < 0 or size > 1 << 32:
            raise self.fail(f"variable {name} has an impossible size")
        if init is not None:
            init = init[:size].ljust(size, b"\0")
        return Variable(name, space, align or bytes_each * count, size, init, tuple(patches), extern or open_ended)

    def _initialiser(self, values: list[int | tuple[str, int]], element: str) -> None:
        if self.accept("{"):
            while not self.accept("}"):
                self._initialiser(values, element)
                if not self.accept(","):
                    self.expect("}")
                    break
            return
        if self.kind == "flt":
            values.append(_float(self.take(), element).value)
        elif self.kind == "int" or self.peek == "-":
            values.append(self.integer())
        elif self.kind == "id":
            name = self.take()
            if name == "generic":
                self.expect("(")
                name = self.take()
                self.expect(")")
            offset = self.integer() if self.accept("+") else 0
            values.append((name, offset))
        else:
            raise self.fail(f"unexpected {self.peek!r} in an initialiser")

    # Functions ----------------------------------------------------------------------------------------------

    def _function(self, entry: bool) -> None:
        line = self.tokens[self.at][2]
        results = self._params() if self.peek == "(" else []
        name = self.take()
        function = Function(name, entry, line=line, results=results)
        if self.peek == "(":
            function.params = self._params()
        while self.kind == "id" and self.peek.startswith("."):
            self._tuning(function)
        if self.accept(";"):
            if name not in self.program.functions:
                self.program.functions[name] = function
            return
        self.function, self.scopes, self.unique, self.loc = function, [{}], 0, 0
        self.expect("{")
        depth = 1
        while depth:
            depth += self._statement()
        self.program.functions[name] = function
        self.function = None

    def _tuning(self, function: Function) -> None:
        word = self.take()
        if word in (".maxntid", ".reqntid"):
            sizes = [self.integer()]
            while self.accept(","):
                sizes.append(self.integer())
            x, y, z = [*sizes, 1, 1][:3]
            function.max_threads = (x, y, z)
            function.exact_threads = word == ".reqntid"
        elif word in (".minnctapersm", ".maxnreg", ".maxnctapersm"):
            self.integer()
        elif word == ".pragma":
            self.skip_statement()
        elif word == ".noreturn":
            return
        else:
            raise UnsupportedInstruction(
                word, line=self.tokens[self.at - 1][2], text=self.line_text(self.tokens[self.at - 1][2])
            )

    def _params(self) -> list[Param]:
        self.expect("(")
        found: list[Param] = []
        while not self.accept(")"):
            if self.take() != ".param":
                raise self.fail("expected .param")
            align, kind = 0, ""
            while self.kind == "id" and self.peek.startswith("."):
                word = self.take()[1:]
                if word == "align":
                    align = self.integer()
                elif word in WIDTH:
                    kind = word
                elif word not in ("ptr", *_SPACES):
                    raise self.fail(f"unknown parameter attribute .{word}")
            if not kind:
                raise self.fail("a parameter needs a type")
            name = self.take()
            size = max(1, WIDTH[kind] // 8)
            if self.accept("["):
                size *= 0 if self.peek == "]" else self.integer()
                self.expect("]")
                kind = "bytes"
            found.append(Param(name, kind, size, align or max(1, min(size, 8))))
            self.accept(",")
        return found

    def _statement(self) -> int:
        """Read one statement of a body. Returns the change of nesting depth."""
        from evo.device.sim.statement import read_statement

        return read_statement(self)

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
        if kind == "int" or (text == "-" and kind == "p"):
            if text == "-" and self.tokens[self.at + 1][0] == "flt":
                raise self.fail("unexpected sign before a float literal")
            return Imm(self.integer())
        if kind == "flt":
            self.at += 1
            return _float(text, "f64" if "." in text else "f32" if text[1] in "fF" else "f64")
        if kind == "sink" or text == "_":
            self.at += 1
            return Sink()
        if kind == "id":
            return self._name()
        raise self.fail(f"unexpected {text!r} where an operand should be")

    def _name(self) -> Operand:
        text = self.take()
        if text.startswith("%"):
            resolved = self.resolve(text)
            if self.function is not None and resolved in self.function.registers:
                return Reg(resolved)
            if text[1:].split(".")[0] in _SPECIAL:
                return Special(text[1:])
            if text.startswith(("%pm", "%envreg")):
                return Special(text[1:])
            self.at -= 1
            raise self.fail(f"register {text} is not declared")
        resolved = self.resolve(text)
        if self.function is not None and resolved in self.function.registers:
            return Reg(resolved)
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
        return Mem(base, offset)


def _int(text: str) -> int:
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


def _float(text: str, element: str) -> Imm:
    if "." in text:
        kind = "d" if element == "f64" else "f"
        return Imm(int.from_bytes(struct.pack("<" + kind, float(text)), "little"), "f64" if kind == "d" else "f32")
    return Imm(int(text[2:], 16), "f32" if text[1] in "fF" else "f64")


def _pack(values: list[int | tuple[str, int]], element: str) -> tuple[bytes, list[tuple[int, str, int]]]:
    width = WIDTH[element] // 8
    out = bytearray()
    patches = []
    for value in values:
        if isinstance(value, tuple):
            if width != 8:
                raise PtxError(f"the address of {value[0]} needs a 64-bit element")
            patches.append((len(out), value[0], value[1]))
            out += bytes(8)
        else:
            out += (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(out), patches


def parse(text: str) -> Program:
    """Parse PTX text. Raises PtxError with the line for anything that is not PTX."""
    if "\0" in text:
        text = text.rstrip("\0")
    try:
        return _Parser(text).module()
    except (IndexError, ValueError, RecursionError, OverflowError) as error:
        raise PtxError(f"malformed PTX ({error})") from error
