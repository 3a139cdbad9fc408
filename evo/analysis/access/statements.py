"""Statements: declarations, branches, early ways out, and what stands outside of functions."""

from __future__ import annotations

from collections.abc import Callable

from evo.analysis.access.c_types import AUTO, INT, OTHER, CType, array_of
from evo.analysis.access.comparisons import ALWAYS, NEVER, Condition, any_of, compare
from evo.analysis.access.declarators import Declarator, function_name
from evo.analysis.access.form import Data
from evo.analysis.access.repetition import Repetition
from evo.analysis.access.terms import Term
from evo.analysis.access.turns import LoopSyntax
from evo.analysis.access.values import ArrayPlace, Cell, Number, Pointer, Real, StructValue, Value, number
from evo.cuda.source.parser import Node


class StatementReader(Repetition):
    """Carries statements out. dynamic: the shared memory that the launch sizes."""

    dynamic: ArrayPlace | None = None

    def execute(self, node: Node) -> None:
        if self.is_dead:
            return
        how = _KINDS.get(node.type)
        if how is not None:
            how(self, node)
        elif node.type not in _SILENT and not node.type.startswith("preproc"):
            for inner in node.named_children:
                self.execute(inner)

    def _block(self, node: Node) -> None:
        with self.scope():
            for inner in node.named_children:
                self.execute(inner)

    def _expression(self, node: Node) -> None:
        for inner in node.named_children:
            if inner.type != "comment":
                self.evaluate(inner)

    # Declarations.

    def _declaration(self, node: Node) -> None:
        words = _words_before(node)
        base = self.base_type(node.child("type"), " ".join(words))
        for declarator in node.children_of("declarator"):
            if declarator.type == "init_declarator" and "structured" in getattr(
                declarator.child("declarator"), "type", ""
            ):
                self._structured(declarator)
                continue
            declared = self.declared(base, declarator)
            if declared.is_function or not declared.name:
                continue
            if "__shared__" in words:
                self._shared(declared, "extern" in words, declarator)
            else:
                self._local(declared, declarator)

    def _shared(self, declared: Declarator, is_dynamic: bool, node: Node) -> None:
        if is_dynamic and self.dynamic is not None:  # all of them begin at the same byte
            self.scopes[-1][declared.name] = ArrayPlace(self.dynamic.term, declared.type)
            return
        place = self.array(declared.name, "shared", declared.type, node)
        if is_dynamic:
            self.dynamic = place
        self.scopes[-1][declared.name] = place

    def _local(self, declared: Declarator, node: Node) -> None:
        kind, value = declared.type, declared.value
        if declared.is_reference and value is not None and value.type != "initializer_list":
            self.scopes[-1][declared.name] = self.place(value)
            return
        if kind.kind == "array":
            self._local_array(declared, node)
            return
        given = self.initial(value, kind, node)
        if kind.kind == "auto" and given is not None:
            kind = given.type if isinstance(given, Number | Real | StructValue) else AUTO
        if isinstance(given, StructValue) and given.type.kind == "struct":
            kind = given.type
        if isinstance(given, Number) and given.condition is None:
            self._name(declared.name, given.term)
            given = Number(self.abbreviated(declared.name, given.term), given.type)
        if kind.kind == "struct" and given is None:
            binding = self.storage(declared.name, kind, node)
            self.scopes[-1][declared.name] = binding
            self._defaults(kind, binding)
            return
        self.declare(declared.name, kind, given)

    def _name(self, name: str, term: Term) -> None:
        """Remember what the author calls an index, or a sum of sizes."""
        if len(term.parts) > 1 or any(symbol.kind in ("block", "thread") for symbol in term.symbols()):
            self.named.setdefault(term, name)

    def _defaults(self, kind: CType, binding: object) -> None:
        """Members that have a value in the struct itself: `int x = 0;`."""
        known = self.struct_nodes.get(kind.name)
        body = known[0].child("body") if known is not None else None
        record = binding.value if isinstance(binding, Cell) else None
        for member in body.named_children if body is not None else ():
            value = member.child("default_value") if member.type == "field_declaration" else None
            name = member.child("declarator")
            if value is not None and name is not None and isinstance(record, StructValue):
                cell = record.fields.get(name.text)
                if isinstance(cell, Cell):
                    cell.value = self.initial(value, cell.type, value)

    def initial(self, value: Node | None, kind: CType, node: Node) -> Value | None:
        """The value of an initialiser as one of that type."""
        if value is None:
            return None
        if value.type in ("initializer_list", "argument_list"):
            nodes = value.inside
            if kind.kind in ("struct", "vector", "int", "bool", "real"):
                return self.construct(kind, nodes, node)
            if kind.kind == "pointer" and nodes:
                return self.converted(self.evaluate(nodes[0]), kind, node)
            return self.listed(value) if nodes else number(0)
        found = self.evaluate(value)
        if isinstance(found, StructValue) and found.type.kind == "auto":
            return self.shaped(found, kind, node)
        return self.converted(found, kind, node)

    def _local_array(self, declared: Declarator, node: Node) -> None:
        kind, value = declared.type, declared.value
        if kind.count is None and value is not None and value.type == "initializer_list":
            count = len(value.inside)
            kind = array_of(kind.of or OTHER, count)
        place = self.array(declared.name, "local", kind, node)
        self.scopes[-1][declared.name] = place
        if value is not None and value.type == "initializer_list":
            self._fill(place, value, node)

    def _fill(self, place: ArrayPlace, listed: Node, node: Node) -> None:
        """`= {}` and `= {a, b}` as stores."""
        nodes = listed.inside
        of = place.type.of or OTHER
        if not nodes:
            zero = Data("constant", detail=0.0)
            self.touch(place, "write", node, zero, "plain", count=place.type.size or 1)
            return
        for at, inner in enumerate(nodes):
            element = ArrayPlace(place.term + at * of.size, of)
            if inner.type == "initializer_list" and of.kind == "array":
                self._fill(element, inner, node)
            else:
                value = self.initial(inner, of, inner)
                self.put(element, value if value is not None else number(0), inner)

    def _structured(self, node: Node) -> None:
        """`auto [a, b] = value;`."""
        names, value = node.child("declarator"), node.child("value")
        found = self.evaluate(value) if value is not None else None
        fields = list(found.fields.values()) if isinstance(found, StructValue) else []
        for at, name in enumerate(c for c in (names.named_children if names else ()) if c.type == "identifier"):
            held = self.fetch(fields[at], node) if at < len(fields) else Real(Data("unknown"), OTHER)
            self.declare(name.text, getattr(held, "type", AUTO), held)

    def _alias(self, node: Node) -> None:
        name, kind = node.child("name"), node.child("type")
        if name is not None and kind is not None:
            self.scopes[-1][name.text] = self.descriptor(kind)

    def _typedef(self, node: Node) -> None:
        words = [c.text for c in node.children if c.type == "type_qualifier"]
        base = self.base_type(node.child("type"), " ".join(words))
        for declarator in node.children_of("declarator"):
            declared = self.declared(base, declarator)
            self.scopes[-1][declared.name] = declared.type

    def _enum(self, node: Node) -> None:
        body, at = node.child("body"), Term.number(0)
        for item in body.named_children if body is not None else ():
            if item.type == "enumerator":
                name, value = item.child("name"), item.child("value")
                at = self.term(value) if value is not None else at
                if name is not None:
                    self.declare(name.text, INT, Number(at, INT))
                at = at + 1

    def _struct(self, node: Node) -> None:
        name = node.child("name")
        if name is not None and node.child("body") is not None:
            self.structs[name.text] = node
            above = node.parent
            if above is None or above.type != "template_declaration":
                self.scopes[-1][name.text] = self.struct_type(node, {})

    def _function(self, node: Node) -> None:
        name = function_name(node)
        if name:
            self.functions.setdefault(name, []).append(node)

    # Branches.

    def _if(self, node: Node) -> None:
        test, then = node.parts("condition", "consequence")
        otherwise = node.child("alternative")
        with self.scope():
            for inner in test.named_children:
                if inner.type in ("init_statement", "declaration"):
                    self.execute(inner)
            condition = self.bounds.decided(self.condition(test))
            other = next(iter(otherwise.inside), None) if otherwise else None
            self.choice(condition, lambda: self.execute(then), (lambda: self.execute(other)) if other else None, node)

    def choice(
        self, condition: Condition, then: Callable[[], None], otherwise: Callable[[], None] | None, node: Node
    ) -> None:
        """Carry out one side or the other, and join what they did."""
        if condition in (ALWAYS, NEVER):
            side = then if condition == ALWAYS else otherwise
            if side is not None:
                side()
            return
        first, mark = len(self.exits), self.mark
        tables, stored = dict(self.tables), len(self.stored)
        with self.collecting() as left, self.under(condition):
            then()
            left_dead = self.is_dead
        after_left = self.undo(mark)
        self.tables = dict(tables)
        with self.collecting() as right, self.under(condition.negated()):
            if otherwise is not None:
                otherwise()
            right_dead = self.is_dead
        after_right = self.undo(mark)
        self.tables = {at: kept for at, kept in tables.items() if at not in self.stored[stored:]}
        self.branch(condition, left, right, node)
        for cell in {**after_left, **after_right}:
            old = self.read(cell)
            sides = [after[cell][0] if cell in after else old for after in (after_left, after_right)]
            if left_dead and not right_dead:
                joined: Value | None = sides[1]
            elif right_dead and not left_dead:
                joined = sides[0]
            else:
                joined = self._joined(condition, sides[0], sides[1], node)
            if joined is not old and not _is_same(joined, old):
                self.write(cell, joined)
        if left_dead and right_dead:
            self.assume(NEVER)
        else:
            self.after_exits(first)

    def _joined(self, condition: Condition, left: Value | None, right: Value | None, node: Node) -> Value | None:
        if left is None or right is None:
            return left if left is not None else right
        return self.merged(condition, left, right, node)

    def _switch(self, node: Node) -> None:
        """A switch in which every case ends in a break or return is a chain of tests."""
        test, body = node.parts("condition", "body")
        value = self.term(test.inside[0])
        groups: list[tuple[list[Condition] | None, list[Node]]] = []
        labels: list[Condition] | None = []
        for case in body.named_children:
            if case.type != "case_statement":
                continue
            label = case.child("value")
            inside = [c for c in case.named_children if c is not label and c.type != "comment"]
            if label is None:
                labels = None
            elif labels is not None:
                labels.append(compare(value - self.term(label), "=="))
            if inside:
                if inside[-1].type not in ("break_statement", "return_statement", "compound_statement"):
                    is_last = case is [c for c in body.named_children if c.type == "case_statement"][-1]
                    if not is_last:
                        self.block(case, self.wording(case), "a case that falls through into the next")
                groups.append((labels, inside))
                labels = []
        self._chain(groups, (), node)

    def _chain(
        self, groups: list[tuple[list[Condition] | None, list[Node]]], earlier: tuple[Condition, ...], node: Node
    ) -> None:
        if not groups:
            return
        (labels, inside), rest = groups[0], groups[1:]
        condition = ALWAYS if labels is None else self.bounds.decided(any_of(labels))

        def carry_out() -> None:
            with self.scope():
                for statement in inside:
                    for part in statement.named_children if statement.type == "compound_statement" else [statement]:
                        if part.type != "break_statement":
                            self.execute(part)

        self.choice(condition, carry_out, lambda: self._chain(rest, earlier, node), node)

    # Loops and ways out.

    def _for(self, node: Node) -> None:
        first = node.child("initializer")
        with self.scope():
            if first is not None:
                self.execute(first) if first.type == "declaration" else self.evaluate(first)
            self.loop(LoopSyntax(node, node.child("condition"), node.child("update"), node.child("body")))

    def _while(self, node: Node) -> None:
        self.loop(LoopSyntax(node, node.child("condition"), None, node.child("body")))

    def _do(self, node: Node) -> None:
        self.loop(LoopSyntax(node, node.child("condition"), None, node.child("body"), is_do=True))

    def _return(self, node: Node) -> None:
        inner = next(iter(node.inside), None)
        self.returns(self.result(inner), node)

    def _jump(self, node: Node) -> None:
        word = node.type.removesuffix("_statement")
        self.leave_node(word, node)
        self.leave(word, self.loop_marks[-1] if self.loop_marks else 0)

    def _goto(self, node: Node) -> None:
        """To a label at the end of the function it is a return; others are not followed."""
        label = node.child("label")
        above = node.around("function_definition")
        body = above.child("body") if above is not None else None
        last = body.inside[-1:] if body is not None else []
        if last and last[0].type == "labeled_statement" and label is not None:
            name = last[0].child("label")
            rest = [c for c in last[0].named_children if c is not name]
            if name is not None and name.text == label.text and all(c.text.strip() in (";", "return;") for c in rest):
                self.leave_node("return", node)
                self.leave("return", self.targets[-1] if self.targets else 0)
                return
        self.block(node, self.wording(node), "a jump that is no early end")

    def _unsupported(self, node: Node) -> None:
        self.block(node, self.wording(node)[:60], f"{node.type.replace('_', ' ')} is not followed")

    # Outside of functions.

    def read_file(self, node: Node) -> None:
        """Types, constants and functions of the file."""
        for inner in node.named_children:
            match inner.type:
                case "declaration":
                    self._global(inner)
                case "namespace_definition" | "linkage_specification" | "declaration_list":
                    self.read_file(inner)
                case "template_declaration":
                    self.read_file(inner)
                case _:
                    self.execute(inner)

    def _global(self, node: Node) -> None:
        words = _words_before(node)
        if "__constant__" in words or "__device__" in words or "__shared__" in words:
            base = self.base_type(node.child("type"), " ".join(words))
            for declarator in node.children_of("declarator"):
                declared = self.declared(base, declarator)
                if not declared.is_function:
                    space = "constant" if "__constant__" in words else "global"
                    self.scopes[0][declared.name] = self.array(declared.name, space, declared.type, declarator)
            return
        self.dry += 1  # tables of constants are no accesses
        self._declaration(node)
        self.dry -= 1


def _words_before(node: Node) -> list[str]:
    kind = node.child("type")
    end = kind.start_byte if kind is not None else node.end_byte
    return [c.text for c in node.children if c.start_byte < end or c.type in ("type_qualifier", "__shared__")]


def _is_same(left: Value | None, right: Value | None) -> bool:
    if isinstance(left, Real) and isinstance(right, Real):
        return left.data is right.data
    return isinstance(left, Number | Pointer) and left == right


_SILENT = frozenset({
    "comment", "static_assert_declaration", "using_declaration", "empty_statement",
    "namespace_alias_definition", ";", "friend_declaration", "access_specifier", "type_identifier",
    "identifier", "primitive_type", "template_parameter_list", "string_literal",
})  # fmt: skip
_KINDS: dict[str, Callable[[StatementReader, Node], None]] = {
    "compound_statement": StatementReader._block,
    "expression_statement": StatementReader._expression,
    "declaration": StatementReader._declaration,
    "alias_declaration": StatementReader._alias,
    "type_definition": StatementReader._typedef,
    "enum_specifier": StatementReader._enum,
    "struct_specifier": StatementReader._struct,
    "class_specifier": StatementReader._struct,
    "function_definition": StatementReader._function,
    "if_statement": StatementReader._if,
    "switch_statement": StatementReader._switch,
    "for_statement": StatementReader._for,
    "while_statement": StatementReader._while,
    "do_statement": StatementReader._do,
    "return_statement": StatementReader._return,
    "continue_statement": StatementReader._jump,
    "break_statement": StatementReader._jump,
    "goto_statement": StatementReader._goto,
    "for_range_loop": StatementReader._unsupported,
    "try_statement": StatementReader._unsupported,
}
