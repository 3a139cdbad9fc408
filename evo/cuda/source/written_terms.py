"""What a compiler computes from names that it knows the values of: sizes that are compiled in, knobs, constants.

Expressions of a text as terms (`evo.spec.size_terms`), with constants, macros, functions of numbers, templates and
their specialisations followed. Such a computation leaves no trace in machine code, and so only the text tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evo.cuda.source.parser import Node
from evo.cuda.source.query import Source, parse
from evo.cuda.source.types import declarator_name, text_of
from evo.cuda.source.written_names import Definition, WrittenNames, kind_of, literal_term
from evo.spec.size_terms import COMPARISONS, SPLITS, SizeEvaluation, SizeFunction, SizeStep, SizeTerm, common_kind

_OPERATORS = frozenset(("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "&&", "||", *COMPARISONS))
_BYTES = {"bool": 1, "char": 1, "short": 2, "__half": 2, "int": 4, "float": 4, "unsigned": 4, "half": 2, "float4": 16}
_FOLDED = frozenset(("binary_expression", "identifier", "type_identifier", "call_expression", "qualified_identifier"))
_DEEP = 90  # nodes within one another, and names that stand for one another
_TEMPLATES = ("template_type", "template_function")


@dataclass(frozen=True, slots=True)
class Written:
    """An expression that the compiler can compute, and the conditions around it that it can compute too."""

    term: SizeTerm
    guards: tuple[tuple[SizeTerm, bool], ...]
    start: int


class WrittenTerms:
    """Of one text. sizes: names that stand for a size (macros of axes); values: names that have a number."""

    def __init__(self, source: Source, sizes: Mapping[str, str], values: Mapping[str, int]) -> None:
        self.names = WrittenNames(source)
        self._known = {name: SizeTerm("size", name=axis, kind="i32") for name, axis in sizes.items()}
        self._known |= {name: SizeTerm("number", number=value, kind="i32") for name, value in values.items()}
        self._built: dict[tuple[int, int], SizeTerm | None] = {}
        self._open: set[int] = set()  # definitions that are being read
        self._shared: dict[int, SizeTerm | None] = {}
        self._functions: dict[int, SizeFunction] = {}
        self._sizes: dict[SizeTerm, frozenset[str]] = {}
        self._depth = 0

    def expressions(self) -> Iterator[Written]:
        """The largest expressions that can be computed and do more than name something, in text order."""
        pending = [self.names.root]
        while pending:
            node = pending.pop()
            term = self.term(node) if node.is_named else None
            for test in self._specialised(node) if node.type in _TEMPLATES else self._cases(node):
                yield Written(test, self._guards(node), node.start_byte)
            if term is not None and term.op not in ("number", "size", "shared", "local"):
                yield Written(term, self._guards(node), node.start_byte)
                continue
            pending += reversed(node.children)

    def sizes_of(self, term: SizeTerm) -> frozenset[str]:
        """The sizes that a term follows from."""
        if term not in self._sizes:
            found: set[str] = set()
            for part in term.walk():
                found |= {part.name} if part.op == "size" else set()
                found |= part.function.names if part.function is not None else set()
            self._sizes[term] = frozenset(found)
        return self._sizes[term]

    # Expressions ------------------------------------------------------------------------------------------------

    def term(self, node: Node | None, local: Mapping[str, str] | None = None) -> SizeTerm | None:
        """A node as a term; None if it is not computed from known names. local: kinds of a function's variables."""
        if node is None or self._depth > _DEEP:
            return None
        key = (id(node), id(local) if local is not None else 0)
        if key not in self._built:
            self._depth += 1
            found = self._term(node, local)
            self._depth -= 1
            if local is not None or self._open:  # what is open may be known later
                return found
            self._built[key] = found
        return self._built[key]

    def _term(self, node: Node, local: Mapping[str, str] | None) -> SizeTerm | None:
        match node.type:
            case "number_literal":
                return literal_term(node.text)
            case "true" | "false":
                return SizeTerm("number", number=int(node.type == "true"), kind="i32")
            case "char_literal":
                inside = node.text.strip("'")
                return SizeTerm("number", number=ord(inside), kind="i32") if len(inside) == 1 else None
            case "identifier" | "type_identifier":
                return self._named(node.text, node, local)
            case "parenthesized_expression" | "condition_clause" | "type_descriptor" | "initializer_list":
                inner = node.inside
                return self.term(inner[0], local) if len(inner) == 1 else None
            case "binary_expression":
                return self._made(node, text_of(node.child("operator")), ("left", "right"), local)
            case "unary_expression":
                operator = text_of(node.child("operator"))
                if operator in ("+", "-", "!", "~", "not"):
                    names = {"-": "neg", "not": "!", "+": "cast"}
                    return self._made(node, names.get(operator, operator), ("argument",), local)
            case "conditional_expression":
                return self._made(node, "?", ("condition", "consequence", "alternative"), local)
            case "cast_expression":
                return self._cast(self.term(node.child("value"), local), text_of(node.child("type")))
            case "sizeof_expression":
                size = _BYTES.get(text_of(node.child("type")))
                return SizeTerm("number", number=size, kind="u64") if size else None
            case "call_expression":
                return self._call(node, local)
            case "qualified_identifier":
                return self._member(node, local)
        return None

    def _made(self, node: Node, op: str, fields: Sequence[str], local: Mapping[str, str] | None) -> SizeTerm | None:
        parts = [self.term(node.child(name), local) for name in fields]
        given = tuple(part for part in parts if part is not None)
        if len(given) < len(fields) or (len(given) == 2 and op not in _OPERATORS):
            return None
        kind = "i32"
        if op not in COMPARISONS and op not in ("&&", "||", "!"):
            kind = common_kind("i32", *(part.kind for part in (given[1:] if op == "?" else given)))
            kind = common_kind("i32", given[0].kind) if op in ("<<", ">>") else kind
        return self._at(node, op, given, kind)

    def _at(
        self, node: Node, op: str, parts: tuple[SizeTerm, ...], kind: str, function: SizeFunction | None = None
    ) -> SizeTerm:
        text = " ".join(node.text.split())
        return SizeTerm(op, parts, kind=kind, line=self.names.line(node), text=text, function=function)

    def _cast(self, term: SizeTerm | None, kind_text: str) -> SizeTerm | None:
        if term is None:
            return None
        kind = kind_of(kind_text)
        if kind == "bool":
            return SizeTerm("!", (SizeTerm("!", (term,), kind="i32", line=term.line, text=term.text),), kind="i32")
        return SizeTerm("cast", (term,), kind=kind, line=term.line, text=term.text) if kind else None

    def _named(self, name: str, node: Node, local: Mapping[str, str] | None) -> SizeTerm | None:
        if local is not None and name in local:
            return SizeTerm("local", name=name, kind=local[name])
        if name in self._known:
            return self._known[name]
        found = self.names.definition(name, node.start_byte)
        return self._defined(found) if found is not None else self._parameter(name, node)

    def _defined(self, found: Definition) -> SizeTerm | None:
        """What a constant stands for, read once."""
        place = id(found.value)
        if place in self._shared:
            return self._shared[place]
        if place in self._open:
            return None
        self._open.add(place)
        term = self.term(found.value)
        self._open.discard(place)
        if term is not None and term.op not in ("number", "size"):
            kind = found.kind if found.kind not in ("", "bool") else term.kind
            term = SizeTerm("shared", (term,), kind=kind, line=term.line, text=term.text)
        self._shared[place] = term
        return term

    def _parameter(self, name: str, node: Node) -> SizeTerm | None:
        """A template's parameter, as it is first given."""
        found = self.names.template_parameter(name, node)
        if found is None or id(found[1]) in self._open:
            return None
        template, holder, place = found
        self._open.add(id(holder))
        given = (self.term(use[place]) for use in self.names.uses(template) if place < len(use))
        term = next((one for one in given if one is not None), None)
        self._open.discard(id(holder))
        return term

    def _call(self, node: Node, local: Mapping[str, str] | None) -> SizeTerm | None:
        function, arguments = node.child("function"), node.child("arguments")
        if function is None or arguments is None:
            return None
        given = [self.term(child, local) for child in arguments.inside]
        parts = tuple(part for part in given if part is not None)
        if len(parts) < len(given):
            return None
        name = text_of(function).split("::")[-1]
        if function.type == "template_function" and text_of(function.child("name")).endswith("_cast"):
            return self._cast(parts[0], text_of(function.child("arguments")).strip("<>")) if len(parts) == 1 else None
        if len(parts) == 1 and (kind_of(name) or function.type == "primitive_type"):
            return self._cast(parts[0], name)
        if name in ("min", "max") and len(parts) == 2:
            return self._at(node, name, parts, common_kind(*(part.kind for part in parts)))
        written = self.names.function(name, node.start_byte)
        if written is None or len(written.parameters) != len(parts):
            return None
        read = self._function(written.node, written.parameters, written.kinds, written.body)
        if read.steps is None and id(written.node) not in self._open:
            return None
        return self._at(node, "call", parts, written.kind or common_kind("i32", *(p.kind for p in parts)), read)

    # Functions --------------------------------------------------------------------------------------------------

    def _function(self, node: Node, parameters: Sequence[str], kinds: Sequence[str], body: Node | None) -> SizeFunction:
        if id(node) in self._functions:
            return self._functions[id(node)]
        made = self._functions[id(node)] = SizeFunction(tuple(parameters))
        local = dict(zip(parameters, kinds, strict=True))
        self._open.add(id(node))
        made.steps = self._steps(body, local)
        self._open.discard(id(node))
        made.names = frozenset(name for step in made.steps or () for name in self._step_sizes(step))
        return made

    def _step_sizes(self, step: SizeStep) -> frozenset[str]:
        inner = (self._step_sizes(one) for one in (*step.then, *step.other))
        return self.sizes_of(step.term).union(*inner)

    def _steps(self, node: Node | None, local: dict[str, str]) -> tuple[SizeStep, ...] | None:
        """A statement of a function of numbers; None if it does something else."""
        if node is None:
            return ()
        match node.type:
            case "compound_statement" | "else_clause" | "comma_expression":
                parts = [self._steps(child, local) for child in node.inside]
                return tuple(step for part in parts for step in part or ()) if None not in parts else None
            case "declaration":
                return self._declared(node, local)
            case "return_statement":
                term = self.term(next(iter(node.named_children), None), local)
                return None if term is None else (SizeStep("return", term),)
            case "expression_statement":
                return self._steps(next(iter(node.named_children), None), local)
            case "if_statement":
                asked = self.term(node.child("condition"), local)
                then = self._steps(node.child("consequence"), local)
                other = self._steps(node.child("alternative"), local)
                if asked is not None and then is not None and other is not None:
                    return (SizeStep("if", asked, then=then, other=other),)
            case "while_statement" | "do_statement":
                asked, then = self.term(node.child("condition"), local), self._steps(node.child("body"), local)
                if asked is not None and then is not None:
                    return (SizeStep("while", asked, then=then, late=node.type == "do_statement"),)
            case "for_statement":
                first = self._steps(node.child("initializer"), local)
                asked, update = self.term(node.child("condition"), local), self._steps(node.child("update"), local)
                then = self._steps(node.child("body"), local)
                if first is not None and asked is not None and update is not None and then is not None:
                    return (*first, SizeStep("while", asked, then=(*then, *update)))
            case "assignment_expression" | "update_expression":
                return self._assigned(node, local)
            case "static_assert_declaration" | "type_definition" | "alias_declaration":
                return ()
            case _ if self._depth < _DEEP and (term := self.term(node, local)) is not None:
                return (SizeStep("return", term),)  # the body of a macro
        return None

    def _declared(self, node: Node, local: dict[str, str]) -> tuple[SizeStep, ...] | None:
        kind = kind_of(text_of(node.child("type")))
        found: list[SizeStep] = []
        for declarator in node.children_of("declarator"):
            name, value = declarator_name(declarator), declarator.child("value")
            term = self.term(value, local) if value is not None else SizeTerm("number", kind="i32")
            if name is None or term is None:
                return None
            local[name] = kind if kind not in ("", "bool") else term.kind
            found.append(SizeStep("set", SizeTerm("cast", (term,), kind=local[name]), name))
        return tuple(found)

    def _assigned(self, node: Node, local: dict[str, str]) -> tuple[SizeStep, ...] | None:
        target = node.child("left") or node.child("argument")
        name = text_of(target)
        if target is None or name not in local:
            return None
        value = self.term(node.child("right"), local)
        operator = text_of(node.child("operator"))
        if node.type == "update_expression":
            value, operator = SizeTerm("number", number=1, kind="i32"), operator[0] + "="
        if value is None or (operator != "=" and operator[:-1] not in _OPERATORS):
            return None
        if operator != "=":
            own = SizeTerm("local", name=name, kind=local[name])
            value = self._at(node, operator[:-1], (own, value), common_kind("i32", own.kind, value.kind))
        return (SizeStep("set", SizeTerm("cast", (value,), kind=local[name]), name),)

    # Templates --------------------------------------------------------------------------------------------------

    def _member(self, node: Node, local: Mapping[str, str] | None) -> SizeTerm | None:
        """`Name<...>::member`, a constant of a template or of one of its specialisations; `Name::member`."""
        scope, name = node.child("scope"), text_of(node.child("name"))
        if scope is None or scope.type != "template_type":
            found = self.names.member(text_of(scope), name)
            return self._defined(found) if found is not None else None
        template = text_of(scope.child("name"))
        given = [self.term(argument, local) for argument in self.names.arguments(scope)]
        parts = tuple(part for part in given if part is not None)
        if len(parts) < len(given):
            return None
        function = self._template(template, name, len(parts))
        if function is None:
            return None
        return self._at(node, "call", parts, "i32", function)

    def _template(self, template: str, member: str, count: int) -> SizeFunction | None:
        """A member of a template as a function of the template's parameters."""
        variants = self.names.structs(template)
        primary = next((one for one in variants if one.given is None), None)
        if primary is None or len(primary.parameters) != count or primary.member(member) is None:
            return None
        key = id(primary.member(member))
        if key in self._functions:
            return self._functions[key]
        names = tuple(f"{name} " for name in primary.parameters)  # no name of a text has a blank
        made = self._functions[key] = SizeFunction(names, ())
        self._open.add(key)
        steps: list[SizeStep] = []
        for one in sorted(variants, key=lambda one: (one.given is None, len(one.parameters))):
            local = {**dict.fromkeys(names, "i32"), **dict.fromkeys(one.parameters, "i32")}
            value = self.term(one.member(member), local)
            if value is None:
                continue
            matches: SizeTerm | None = None
            own: list[SizeStep] = []
            arguments: Sequence[Node | str] = one.given if one.given is not None else primary.parameters
            for name, argument in zip(names, arguments, strict=False):
                given = SizeTerm("local", name=name, kind="i32")
                if isinstance(argument, str) or argument.text in one.parameters:
                    own.append(SizeStep("set", given, argument if isinstance(argument, str) else argument.text))
                elif (wanted := self.term(argument)) is not None:
                    test = self._at(argument, "==", (given, wanted), "i32")
                    matches = test if matches is None else self._at(argument, "&&", (matches, test), "i32")
            answer = (*own, SizeStep("return", value))
            steps += answer if matches is None else (SizeStep("if", matches, then=answer),)
        self._open.discard(key)
        made.steps = tuple(steps)
        made.names = frozenset(name for step in steps for name in self._step_sizes(step))
        return made

    def _specialised(self, node: Node) -> Iterator[SizeTerm]:
        """Whether a use of a template is that of each specialisation."""
        given = self.names.arguments(node)
        for special in self.names.specialisations(text_of(node.child("name"))):
            if special is node:
                return
        for special in self.names.specialisations(text_of(node.child("name"))):
            test: SizeTerm | None = None
            for argument, own in zip(given, self.names.arguments(special), strict=False):
                term, wanted = self.term(argument), self.term(own)
                if term is None or wanted is None or self.sizes_of(wanted):
                    continue
                same = self._at(special, "==", (term, wanted), "i32")
                test = same if test is None else self._at(special, "&&", (test, same), "i32")
            if test is not None and self.sizes_of(test):
                yield test

    # What stands around -----------------------------------------------------------------------------------------

    def _cases(self, node: Node) -> Iterator[SizeTerm]:
        """Whether a `switch` takes each of its cases."""
        if node.type != "switch_statement" or (asked := self.term(node.child("condition"))) is None:
            return
        for case in (child for child in node.walk() if child.type == "case_statement"):
            if (value := self.term(case.child("value"))) is not None:
                yield self._at(case, "==", (asked, value), "i32")

    def _guards(self, node: Node) -> tuple[tuple[SizeTerm, bool], ...]:
        """Conditions that lead to a node, as far as they are computed, and how they have to come out."""
        found: list[tuple[SizeTerm, bool]] = []
        below, above = node, node.parent
        while above is not None:
            asked, value = None, below.field != "alternative"
            if above.type in ("if_statement", "conditional_expression") and below.field != "condition":
                asked = above.child("condition")
            elif above.type.startswith("preproc_if") or above.type == "preproc_elif":
                asked = above.child("condition") if below.field != "condition" else None
            elif above.type == "binary_expression" and below.field == "right":
                operator = text_of(above.child("operator"))
                asked, value = (above.child("left"), operator == "&&") if operator in ("&&", "||") else (None, True)
            if (term := self.term(asked)) is not None:
                found.append((term, value))
            below, above = above, above.parent
        return tuple(found)


def folded_constants(text: str, values: Mapping[str, int]) -> Iterator[tuple[int, bool]]:
    """Whole numbers that the compiler works out from others; and whether one is compared, divided or a template's."""
    terms = WrittenTerms(parse(text), {}, values)
    for node in terms.names.nodes:
        if node.type not in _FOLDED or (term := terms.term(node)) is None or term.op in ("number", "local"):
            continue
        value = SizeEvaluation({}, 1).of(term)[0]
        if value == int(value):
            around = node.parent
            while around is not None and around.type in ("parenthesized_expression", "type_descriptor"):
                around = around.parent
            operator = text_of(around.child("operator")) if around is not None else ""
            of_template = around is not None and around.type in ("template_argument_list", "case_statement")
            yield int(value), of_template or operator in SPLITS or operator in COMPARISONS


def written_terms(text: str, sizes: Mapping[str, str], values: Mapping[str, int]) -> WrittenTerms:
    """sizes: the axis that a compiled-in name stands for. values: knobs."""
    return WrittenTerms(parse(text), sizes, values)
