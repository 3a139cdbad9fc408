"""Runs host code far enough to know what it allocates, copies and launches: numbers, pointers and calls, no data.

Loops that touch nothing of the GPU are left out. Of a loop that launches the same again, one turn is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evo.cuda.source.parser import Node
from evo.cuda.source.types import declarator_name, text_of
from evo.interop.adopt.host_expressions import COMPLEX, VECTORS, bare_type, literal, without_torch_types
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied, is_next, size_word
from evo.interop.adopt.host_records import enumerators, parted, record_of, vector_type
from evo.interop.adopt.host_start import HostStart
from evo.interop.adopt.host_values import (
    Address,
    DevicePointer,
    HostArray,
    HostEvent,
    HostLambda,
    HostPack,
    HostRecord,
    HostVariable,
    Stopped,
    copied,
)
from evo.interop.adopt.host_vectors import FUNCTION_POINTER, misread_vectors
from evo.interop.adopt.parameters import deduced_type, parameters_of, template_parameters

_MOST_TURNS = 64


class Host(HostStart):
    """One program. given: sizes that the user has set, by name."""

    def __init__(self, path: Path, given: Mapping[str, int]) -> None:
        super().__init__()
        self.path, self.given = path, dict(given)
        self.scopes: list[dict[str, HostVariable]] = [{}]
        self.macros, self.types = {}, dict(COMPLEX)
        self.records = {name: vector_type(name) for name in VECTORS}
        self.tight_rows, self.elements_made, self.argc, self.largest_bytes = False, 0, 1, 0
        self.passed, self.beside, self.wanted = {}, {}, None
        self.functions: dict[str, Node] = {}
        self.functors = {}
        self.undefined, self.untold = set(), frozenset()
        self.heads: dict[str, Node] = {}
        self.compiled_in: set[str] = set()  # words between `<` and `>` of calls and launches
        self.kernels: dict[str, Node] = {}
        self.events: list[HostEvent] = []
        self.notes: list[str] = []
        self.depth = 0
        self._touching: dict[int, bool] = {}
        self.named: dict[str, int | float | None] = {}  # sizes, by the names that they have got
        self.unknown_sizes: list[str] = []  # parameters of a launcher, which no caller gives
        self.wished: dict[str, int | float] = {}  # what such a size must be for a launch that was passed over
        self.kept: frozenset[str] = frozenset()  # sizes that decide how many launches there are

    def size_name(self, name: str, value: int | float | None) -> str:
        name = word = size_word(name)
        number = 2
        while self.named.get(word, 0) not in (0, value):  # `n_ = 0` in a class is no size yet
            word, number = f"{name}_{number}", number + 1
        self.named[word] = value
        return word

    def run_function(
        self,
        node: Node,
        arguments: Sequence[object],
        fields: dict[str, HostVariable] | None = None,
        begin: Callable[[], None] | None = None,
    ) -> object:
        scope: dict[str, HostVariable] = {}
        params = parameters_of(node)
        for param, value in zip(params, arguments, strict=False):
            kind, name = param.kind, param.name
            if "..." in kind:
                break
            if isinstance(value, Address) and "&" in kind:
                scope[name] = value.cell
            else:
                by_value = isinstance(value, HostRecord) and not set("&*") & set(kind)
                is_asked = value == UNKNOWN and name in self.given and self.is_integer(kind)
                held = self.guessed(name) if is_asked else copied(value) if by_value else value
                scope[name] = HostVariable(name, kind, held)
                if isinstance(value, HostNumber) and not is_asked and name != "argc" and self._function_touches(node):
                    self.store(scope[name], value)  # a number that a launcher is given goes by the parameter's name
        for param in params[-1:] if params and "..." in params[-1].kind else ():
            rest = [HostVariable(f"{param.name}_{at}", "auto", v) for at, v in enumerate(arguments[len(params) - 1 :])]
            scope |= {cell.name: cell for cell in rest}
            scope[param.name] = HostVariable(param.name, param.kind, HostPack(tuple(cell.name for cell in rest)))
        scopes = [self.scopes[0], fields, scope] if fields is not None else [self.scopes[0], scope]

        def first() -> None:
            for param in params[len(arguments) :]:  # what the call leaves out
                if param.default is not None:
                    scope[param.name] = HostVariable(param.name, param.kind)
                    self.store(scope[param.name], self.value(param.default))
            if begin is not None:
                begin()

        return self._inside(scopes, node.child("body"), first)

    def run_template(self, name: str, template: Sequence[Node], arguments: Sequence[object]) -> object:
        """Run a function of a template, whose parameters are numbers, or types as named or as pointers have them."""
        node, before = self.functions[name], dict(self.types)
        numbers: dict[str, HostVariable] = {}
        for place, param in enumerate(template_parameters(self.heads[name])):
            if place >= len(template):
                number, kind = literal(param.default or ""), deduced_type(node, param.name, arguments) or param.default
            else:
                word = bare_type(template[place].text)
                cell = self.find(word)
                value = cell.value if cell is not None else self.size(template[place])
                number, kind = value if isinstance(value, HostNumber) else UNKNOWN, self.types.get(word, word)
            if number.value is not None:
                numbers[param.name] = HostVariable(param.name, "", number)
            elif kind is not None:
                self.types[param.name] = kind
        try:
            return self.run_function(node, arguments, numbers)
        finally:
            self.types.clear()
            self.types.update(before)

    def run_lambda(self, held: HostLambda, arguments: Sequence[object]) -> object:
        scope = {
            p.name: value.cell if isinstance(value, Address) and "&" in p.kind else HostVariable(p.name, p.kind, value)
            for p, value in zip(parameters_of(held.node), arguments, strict=False)
        }
        return self._inside([*held.scopes, scope], held.node.child("body"))

    def _inside(
        self, scopes: list[dict[str, HostVariable]], body: Node | None, begin: Callable[[], None] | None = None
    ) -> object:
        before, self.scopes = self.scopes, scopes
        self.depth += 1
        try:
            if begin is not None:
                begin()
            if body is not None:
                self.execute(body)
        except Stopped as stop:
            memory = stop.value.memory if isinstance(stop.value, DevicePointer) else None
            if memory is not None and body is not None and 0 < memory.line - body.row <= body.text.count("\n") + 1:
                memory.name = ""  # allocated here, and named by who takes it
            return stop.value
        finally:
            self.scopes = before
            self.depth -= 1
        return UNKNOWN

    # Statements.

    def execute(self, node: Node) -> None:
        self.count_statement()
        match node.type:
            case "compound_statement" | "else_clause" | "case_statement" | "translation_unit":
                self.scopes.append({})
                for child in node.named_children:
                    self.execute(child)
                self.scopes.pop()
            case "declaration":
                self.declare(node)
            case "expression_statement":
                declared = misread_vectors(node)
                for each in declared:
                    self.declare(each)
                for child in [] if declared else node.named_children:
                    self.value(child)
            case "if_statement":
                self._if(node)
            case "try_statement":
                body = node.child("body") or next(
                    (c for c in node.named_children if c.type.startswith("compound")), None
                )
                if body is not None:
                    self.execute(body)
            case "for_statement" | "while_statement" | "do_statement" | "for_range_loop":
                self._loop(node)
            case "return_statement":
                inner = node.named_children
                self.returned(node, is_last=self.depth == 1)
                raise Stopped(self.value(inner[0]) if inner else UNKNOWN)
            case "switch_statement":
                self._switch(node)
            case "type_definition" | "alias_declaration":
                self.define_type(node)

    def declare(self, node: Node) -> None:
        """Variables, with what they start as."""
        kind = text_of(node.child("type"))
        for declarator in node.children_of("declarator"):
            name = declarator_name(declarator)
            if re.match(r"&{0,2}\s*+\[", declarator.text):
                self.declared_parts(declarator)
                continue
            if name is None:
                if (meant := FUNCTION_POINTER.match(declarator.text)) is not None:
                    self.declared_pointer(meant[1], declarator.child("value"))
                elif declarator.type == "function_declarator":
                    self.declared_by_call(declarator, kind)
                continue
            pointer = "*" if any(n.type == "pointer_declarator" for n in declarator.walk()) else ""
            # A local constant that is compiled in is a number of the kernel, not a size.
            cell = HostVariable(name, kind + pointer, is_fixed=len(self.scopes) > 1 and name in self.compiled_in)
            self.scopes[-1][name] = cell
            array = next((n for n in declarator.walk() if n.type == "array_declarator"), None)
            value = declarator.child("value")
            if (word := size_word(name)) in self.given and array is None and not pointer:
                self.named[word] = self.given[word]
                cell.value = HostNumber.named(word, self.given[word])
            elif self.is_device_vector(kind):
                lists = ("argument_list", "initializer_list")
                given = value.named_children if value is not None and value.type in lists else [value] if value else []
                self.device_vector(cell, given, node.row + 1)
            elif array is not None:
                inside = value.named_children if value is not None and value.type == "initializer_list" else []
                items = tuple(self.value_of_kind(kind, each) for each in inside) if len(inside) > 1 else ()
                length = self._array_length(array) if array.child("size") else HostNumber.number(len(items))
                length = length if length.value else UNKNOWN
                cell.value = HostArray(name, length, bare_type(kind), items, of_pointers=bool(pointer))
            elif value is not None and value.type in ("argument_list", "initializer_list"):
                self.store(cell, self.constructed(kind, value))
            elif value is not None:
                started = self.value(value) if "&" in declarator.text.partition("=")[0] else copied(self.value(value))
                if started == UNKNOWN and not pointer and self.is_asked_for(name, kind, value):
                    started = self.guessed(name, value.text)
                if "host_vector" not in kind or not self.moved(cell, started, node.row + 1):
                    self.store(cell, started)
                    cell.untold = self.untold_in(value) if started == UNKNOWN else frozenset()
            elif "vector" in kind or (not pointer and (self.is_record(kind) or bare_type(kind) == "dim3")):
                self.store(cell, self.constructed(kind, None))

    def _array_length(self, array: Node) -> HostNumber:
        total = HostNumber.number(1)
        node: Node | None = array
        while node is not None and node.type == "array_declarator":
            total = applied("*", self.size(node.child("size")), total)
            node = node.child("declarator")
        return total

    def define_type(self, node: Node) -> None:
        if (record := record_of(node)) is not None:
            self.records[record.name] = record
            return
        for word, given in enumerators(node).items():
            number = self.in_text(given, {}) if isinstance(given, str) else self.value(given)
            self.scopes[0][word] = HostVariable(word, "", number, is_fixed=True)
        kind = node.child("type")
        name = node.child("declarator") or node.child("name")
        if kind is not None and name is not None:
            text = re.sub(r"[A-Za-z_]\w*", lambda word: self.types.get(word[0], word[0]), kind.text)
            self.types[name.text] = bare_type(without_torch_types(text) if text != kind.text else kind.text)

    def _if(self, node: Node) -> None:
        test = self.value(node.child("condition"))
        then, otherwise = node.child("consequence"), node.child("alternative")
        known = test.value if isinstance(test, HostNumber) else None
        if known is None:
            launches = [branch for branch in (then, otherwise) if branch is not None and self.touches_gpu(branch)]
            if launches and any(n.type == "kernel_call_syntax" for b in launches for n in b.walk()):
                self.notes.append(f"line {node.row + 1}: the first branch is taken, since its test is not known")
            branch = launches[0] if launches else None
            if branch is None:
                self.either(test, then, otherwise)
                return
        elif otherwise is None and then is not None and not self.touches_gpu(then) and self.rounded(test, then):
            return
        else:
            branch = then if known else otherwise
            how = test.how if isinstance(test, HostNumber) else None
            if not known and isinstance(how, tuple) and how[0] == "==" and then is not None:
                self._wish(how[1], how[2], then)
        if branch is not None:
            self.execute(branch)

    def _wish(self, name: object, value: object, branch: Node) -> None:
        """A guess was another than a launch asks for: `if (head_dim == 64) ...`, `case 64:`."""
        if name in self.unknown_sizes and isinstance(value, int | float) and self.touches_gpu(branch):
            self.wished[str(name)] = value

    def _switch(self, node: Node) -> None:
        asked = self.size(node.child("condition"))
        chosen = asked.value
        body = node.child("body")
        cases = [c for c in (body.named_children if body is not None else []) if c.type == "case_statement"]
        default = next((c for c in cases if c.child("value") is None), None)
        found = next((c for c in cases if c.child("value") and self.size(c.child("value")).value == chosen), default)
        if chosen is None and (default is None or not self.touches_gpu(default)):
            found = self.launching_case(cases, node.row + 1) or found
        running = False
        for case in cases:
            self._wish(asked.how, self.size(case.child("value")).value, case)
            running = running or case is found
            if not running:
                continue
            for child in case.named_children:
                if child.type == "break_statement":
                    return
                if child.field != "value":
                    self.execute(child)

    def touches_gpu(self, node: Node) -> bool:
        """Whether code launches, or calls the runtime or a function that does."""
        for inner in node.walk():
            if inner.type == "kernel_call_syntax":
                return True
            if inner.type == "call_expression":
                name = text_of(inner.child("function"))
                if name.startswith(("cudaM", "cudaL")):
                    return True
                for function in self.called(name):
                    if function is not node and self._function_touches(function):
                        return True
        return False

    def called(self, name: str) -> list[Node]:
        """What a call by this name may run: a function, a method of that name, a lambda."""
        word = re.split(r"\.|->", parted(name)[1].partition("<")[0])[-1]
        found = [self.functions[word]] if word in self.functions else []
        cell = self.find(word)
        if cell is not None and isinstance(cell.value, HostLambda):
            found.append(cell.value.node)
        if name != word or not found:
            found += [r.methods[word] for r in self.records.values() if word in r.methods]
        return found

    def _function_touches(self, function: Node) -> bool:
        key = function.start_byte
        if key not in self._touching:
            self._touching[key] = False  # while it is being looked at
            self._touching[key] = self.touches_gpu(function)
        return self._touching[key]

    # Loops.

    def _loop(self, node: Node) -> None:
        body = node.child("body")
        if body is None or re.search(r"\bgetopt(?:_long|_long_only)?\s*\(", node.text):
            return  # a program without options
        if not self.touches_gpu(body):
            self.without_gpu(node, body)
            return
        self.scopes.append({})
        if node.type == "for_range_loop":
            self.last_of(node)
        start = node.child("initializer")
        counters, begun = list[HostVariable](), list[list[object]]()
        if start is not None:
            self.execute(start) if start.type == "declaration" else self.value(start)
            counters = [*self.scopes[-1].values(), *self.changed(start)]
            for cell in counters:
                cell.is_fixed = True
                if isinstance(cell.value, HostNumber):
                    cell.value = HostNumber(cell.value.value, cell.value.value)
        turns: list[list[HostEvent]] = []
        outer, self.events = self.events, []
        bounds, is_same = frozenset[str](), False
        while len(turns) < _MOST_TURNS:
            test = self.value(node.child("condition")) if node.type != "do_statement" or turns else HostNumber.number(1)
            known = test.value if isinstance(test, HostNumber) else None
            bounds |= test.names if isinstance(test, HostNumber) else frozenset()
            if known == 0 or (known is None and turns):
                break
            self.events, before, made = [], self.ticks, self.elements_made
            begun.append([cell.value for cell in counters])
            self.execute(body)
            turns.append(self.events)
            is_new = self.elements_made > made
            is_counted = self.ticks > before
            if (step := node.child("update")) is not None:
                self.value(step)
            is_same = len(turns) == 2 and not is_new and self._same(turns[0], turns[1], is_counted=is_counted)
            if is_same:
                break
        if len(turns) == _MOST_TURNS and any(event.kind == "launch" for event in turns[-1]):
            turns, bounds = [self.one_of_many(node, counters, begun, turns)], frozenset()
        self.scopes.pop()
        self.events = outer
        self._take(turns, node, bounds, is_same=is_same)

    def _take(self, turns: list[list[HostEvent]], node: Node, bounds: frozenset[str], *, is_same: bool) -> None:
        if is_same:
            if any(event.kind == "launch" for event in turns[0]):
                self.notes.append(f"line {node.row + 1}: the loop repeats its launches; one turn is adopted")
            self.events += turns[0]
            return
        if len(turns) > 1 and bounds:
            names = ", ".join(sorted(bounds))
            if any(event.kind == "launch" for event in turns[0]):
                self.notes.append(f"line {node.row + 1}: the number of launches depends on {names}: kept as here")
            self.kept |= bounds
        alike = {tuple(event.launched and event.launched.kernel for event in turn) for turn in turns}
        self.events += [replace(event, is_step=len(alike) == 1) for turn in turns for event in turn]

    def _same(self, first: list[HostEvent], second: list[HostEvent], *, is_counted: bool) -> bool:
        """Whether two turns do the same, with buffers that may have changed places.

        is_counted: a variable that is no loop's own counts the turns, and what follows from it differs: time steps.
        """
        ours, theirs = ([e.launched for e in turn if e.launched is not None] for turn in (first, second))
        if len(ours) != len(theirs) or (not ours and [e.memory for e in first] != [e.memory for e in second]):
            return False
        for a, b in zip(ours, theirs, strict=True):
            names = [{p.memory for p in each.arguments if isinstance(p, DevicePointer)} for each in (a, b)]
            numbers = [[s.value for s in each.arguments if isinstance(s, HostNumber)] for each in (a, b)]
            ours_and_theirs = list(zip(*numbers, strict=False))
            if is_counted:
                ours_and_theirs = [(x, y) for x, y in ours_and_theirs if not is_next(x, y)]
            if a.kernel != b.kernel or names[0] != names[1] or any(x != y for x, y in ours_and_theirs):
                return False
        return True
