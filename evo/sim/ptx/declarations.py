"""Declarations: variables with their initialisers, parameters, and what a function says about its launches."""

from __future__ import annotations

from evo.sim.errors import PtxError, UnsupportedInstruction
from evo.sim.ptx.ast import WIDTH, PtxFunction, PtxParam, Variable
from evo.sim.ptx.lexer import Cursor, float_of

SPACES = ("global", "const", "shared", "local", "param")


class Declarations(Cursor):
    """Reads them."""

    def variables(self, space: str, extern: bool = False) -> list[Variable]:
        if space not in SPACES:
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
            elif word == "attribute":
                self.skip_to(")")  # managed and unified memory is memory like any other here
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
            if space not in ("global", "const"):
                raise self.fail(f"a .{space} variable cannot be initialised")
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
            values.append(float_of(self.take(), element).value)
        elif self.kind == "int" or self.peek == "-":
            values.append(self.integer())
            if self.accept("("):  # one byte of an address; the eight of them come in order
                first = values.pop() == 0xFF
                one: list[int | tuple[str, int]] = []
                self._initialiser(one, "b64")
                if len(one) != 1:
                    raise self.fail("a part of an address needs one address")
                self.expect(")")
                values += one if first else [0]
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

    def tuning(self, function: PtxFunction) -> None:
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

    def params(self) -> list[PtxParam]:
        self.expect("(")
        found: list[PtxParam] = []
        while not self.accept(")"):
            space = self.take()
            if space not in (".param", ".reg"):
                raise self.fail("expected .param")
            align, kind = 0, ""
            while self.kind == "id" and self.peek.startswith("."):
                word = self.take()[1:]
                if word == "align":
                    align = self.integer()
                elif word in WIDTH:
                    kind = word
                elif word not in ("ptr", *SPACES):
                    raise self.fail(f"unknown parameter attribute .{word}")
            if not kind:
                raise self.fail("a parameter needs a type")
            name = self.take()
            size = max(1, WIDTH[kind] // 8)
            if self.accept("["):
                if space == ".reg":
                    raise self.fail("a register is no array")
                size *= 0 if self.peek == "]" else self.integer()
                self.expect("]")
                kind = "bytes"
            found.append(PtxParam(name, kind, size, align or max(1, min(size, 8)), space == ".reg"))
            self.accept(",")
        return found


def _pack(values: list[int | tuple[str, int]], element: str) -> tuple[bytes, list[tuple[int, str, int]]]:
    width = WIDTH[element] // 8
    out = bytearray()
    patches = []
    for value in values:
        if isinstance(value, tuple):
            if width not in (1, 8):
                raise PtxError(f"the address of {value[0]} needs a 64-bit element")
            patches.append((len(out), value[0], value[1]))
            out += bytes(width)
        else:
            out += (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(out), patches
