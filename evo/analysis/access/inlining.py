"""Calls: functions of the file, lambdas, functors and methods are read as if their text stood at the call."""

from __future__ import annotations

from evo.analysis.access.assembly import Assembly
from evo.analysis.access.atomic_functions import atomic_operation
from evo.analysis.access.c_types import AUTO, OTHER, CType, named_type
from evo.analysis.access.comparisons import ALWAYS, NEVER, Condition, all_of
from evo.analysis.access.declarators import (
    Declarator,
    function_name,
    function_params,
    is_type_node,
    qualifiers_of,
    template_params,
)
from evo.analysis.access.form import Data
from evo.analysis.access.preprocess import Expanded
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import Symbol
from evo.analysis.access.values import (
    ArrayPlace,
    Binding,
    Builtin,
    Cell,
    Chosen,
    Closure,
    Group,
    Number,
    Part,
    Place,
    Pointer,
    Real,
    Scope,
    StructValue,
    Value,
    number,
)
from evo.cuda.source.parser import Node

_DEEPEST = 24
_CASTS = ("static_cast", "reinterpret_cast", "const_cast", "bit_cast", "__builtin_bit_cast")
_FUNCTORS = ("plus", "greater", "less", "bit_and", "bit_or", "bit_xor", "multiplies")


class Calls(Assembly):
    """Carries calls out. Of the functions being read: active where they stand, targets how deep their context begins,
    returned what they have returned and when, references whether that is a reference. wanted: the call whose place is
    asked for, referred_to: that place."""

    def __init__(self, text: Expanded, data: bytes, bounds: Bounds) -> None:
        super().__init__(text, data, bounds)
        self.active: list[int] = []
        self.targets: list[int] = []
        self.returned: list[list[tuple[Condition, Value]]] = []
        self.references: list[bool] = []
        self.wanted: int | None = None
        self.referred_to: Place | None = None
        self._atomics: dict[str, str | None] = {}  # by the name of a function

    def execute(self, node: Node) -> None:
        """Carry a statement out; given by the classes above."""
        raise AssertionError(node.type)

    def call(self, node: Node) -> Value:
        function, listed = node.child("function"), node.child("arguments")
        if node.type == "template_function":  # named, not called
            function, listed = node, None
        assert function is not None
        nodes = listed.inside if listed is not None else []
        if function.type == "field_expression":
            return self._method_call(function, nodes, node)
        if function.type in ("compound_literal_expression", "lambda_expression", "call_expression"):
            return self._call_value(self.evaluate(function), nodes, node)
        if function.type == "parenthesized_expression":
            kind = self._type_in(function)
            return (
                self.construct(kind, nodes, node)
                if kind is not None
                else self._call_value(self.evaluate(function), nodes, node)
            )
        name, template = _name_of(function)
        static = self._static_method(function, name)
        if static is not None:
            return self._inline(static, list(nodes), node, template)
        if name in _CASTS and template is not None:
            return self._cast_call(name, template, nodes[0])
        if is_type_node(function) and function.type != "qualified_identifier":
            return self.construct(self.base_type(function), nodes, node)
        bound = self.lookup(name)
        if isinstance(bound, Cell):
            return self._call_value(self.fetch(bound, node), nodes, node)
        if isinstance(bound, CType):
            return self.construct(bound, nodes, node)
        if name in self.functions:
            if (operation := self._atomic_operation(name)) is not None:
                return self.atomic(operation, [self.evaluate(argument) for argument in nodes], node)
            closure = Closure(self._overload(name, len(nodes)), name=name)
            return self._inline(closure, list(nodes), node, template)
        if name in self.structs:
            return self.construct(self._struct_named(name, template), nodes, node)
        this = self.lookup("this")
        if isinstance(this, Cell) and isinstance(this.value, StructValue):
            found = self.method(this.value.type, name)
            if found is not None:
                closure = Closure(found[0], this=this.value, name=name, types=dict(found[1]))  # type: ignore[arg-type]
                return self._inline(closure, list(nodes), node, template)
        kind = named_type(name)
        if kind.kind != "other" and not name.startswith("__half_"):
            return self.construct(kind, nodes, node)
        return self._foreign(name, nodes, template, node)

    def _atomic_operation(self, name: str) -> str | None:
        """What a function of the file does to an element by atomics, as one of CUDA's own would."""
        if name not in self._atomics:
            found = self.functions[name]
            self._atomics[name] = atomic_operation(found[0], self.functions) if len(found) == 1 else None
        return self._atomics[name]

    def _type_in(self, brackets: Node) -> CType | None:
        """The type of `(half)(x)`, which the grammar takes for a call."""
        word = brackets.inside[0] if len(brackets.inside) == 1 else None
        if word is None or word.type not in ("identifier", "type_identifier"):
            return None
        bound = self.lookup(word.text)
        if isinstance(bound, CType):
            return bound
        kind = named_type(word.text)
        return kind if bound is None and kind.kind != "other" else None

    def _static_method(self, function: Node, name: str) -> Closure | None:
        """`Operation::combine` of a struct, or of the type that a template parameter stands for."""
        scope = function.child("scope") if function.type == "qualified_identifier" else None
        if scope is None:
            return None
        kind = self.lookup(scope.text)
        if not isinstance(kind, CType) and scope.type == "template_type":
            kind = self.base_type(scope)
        found = self.method(kind, name) if isinstance(kind, CType) else None
        return Closure(found[0], name=name, types=dict(found[1])) if found is not None else None  # type: ignore[arg-type]

    def _foreign(self, name: str, nodes: list[Node], template: Node | None, node: Node) -> Value:
        """A function that the file does not define."""
        if name in _FUNCTORS:
            return Builtin(name)
        arguments = [self.evaluate(argument) for argument in nodes]
        given = []
        for argument in template.named_children if template is not None else ():
            if argument.type not in ("type_descriptor", "comment"):
                given.append(self.evaluate(argument))
            elif isinstance(bound := self.lookup(argument.text), Cell):
                given.append(self.fetch(bound, argument))
        found = self.group_call(name, arguments, given, node)
        return found if found is not None else self.intrinsic(name, arguments, node)

    def _cast_call(self, name: str, template: Node, argument: Node) -> Value:
        target = template.inside[0]
        kind = self.descriptor(target) if target.type == "type_descriptor" else self.base_type(target)
        value = self.evaluate(argument)
        is_reference = "&" in target.text
        if is_reference and name != "static_cast":  # reinterpret_cast<float4&>(x[i])
            place = self.place(argument)
            return self.fetch(self.deref(self.cast_pointer(self.address_of(place, argument), kind), argument), argument)
        return self.cast(kind, value, argument)

    def cast_pointer(self, pointer: Pointer, of: CType) -> Pointer:
        return Pointer(pointer.term, of)

    def _overload(self, name: str, count: int) -> Node:
        """The function of that name with as many parameters."""
        for candidate in self.functions[name]:
            if len(function_params(candidate)) == count:
                return candidate
        return self.functions[name][-1]

    def _struct_named(self, name: str, template: Node | None) -> CType:
        node = self.structs[name]
        return self.struct_type(node, self.template_arguments(node, template))

    def _method_call(self, function: Node, nodes: list[Node], node: Node) -> Value:
        argument, field = function.parts("argument", "field")
        name = field.text.split("<")[0]
        place = self.place(argument)
        value = self.fetch(place, argument) if not isinstance(place, Cell) else place.value
        if isinstance(value, Group):
            return self.group_method(value, name, [self.evaluate(n) for n in nodes], node)
        kind = value.type if isinstance(value, StructValue) else value.of if isinstance(value, Pointer) else OTHER
        found = self.method(kind, name)
        if found is not None and isinstance(value, StructValue):
            closure = Closure(found[0], this=value, name=name, types=dict(found[1]))  # type: ignore[arg-type]
            return self._inline(closure, list(nodes), node, field.child("arguments"))
        if isinstance(value, StructValue) and name in value.fields:
            return self._call_value(self.fetch(value.fields[name], node), nodes, node)
        arguments = [self.evaluate(n) for n in nodes]
        self.block(node, self.wording(node), f"method `{name}` is not known")
        return Real(Data("call", tuple(self.data_of(a) for a in arguments), name), OTHER)

    def _call_value(self, value: Value, nodes: list[Node], node: Node) -> Value:
        if isinstance(value, Closure):
            return self._inline(value, list(nodes), node, None)
        if isinstance(value, Builtin):
            return self._foreign(value.name, nodes, None, node)
        if isinstance(value, StructValue):
            found = self.method(value.type, "operator()")
            if found is not None:
                closure = Closure(found[0], this=value, name=value.type.name, types=dict(found[1]))  # type: ignore[arg-type]
                return self._inline(closure, list(nodes), node, None)
        for argument in nodes:
            self.evaluate(argument)
        self.block(node, self.wording(node), "it is not known which function is called")
        return Real(Data("unknown"), OTHER)

    def invoke(self, closure: Closure, arguments: list[Value], node: Node) -> Value:
        return self._inline(closure, list(arguments), node, None)

    def _inline(self, closure: Closure, arguments: list[Node | Value], node: Node, template: Node | None) -> Value:
        """Read the body of a function with its parameters bound."""
        if len(self.calls) > _DEEPEST or self.active.count(closure.node.start_byte) > 2:
            self.block(node, self.wording(node), "functions call one another too deeply")
            return Real(Data("unknown"), OTHER)
        bound: Scope = dict(closure.types)
        bound.update(self.template_arguments(closure.node, template))
        self._bind(closure, arguments, bound, node)
        if closure.this is not None:
            held = closure.this if isinstance(closure.this, StructValue) else None
            bound["this"] = Cell("this", held.type if held is not None else OTHER, held, self.frame)
        body = closure.node.child("body")
        outside, self.scopes = self.scopes, [*(closure.scopes or self.scopes[:1]), bound]
        mark, facts, first = len(self.context), len(self.bounds.facts), len(self.exits)
        self.calls.append(closure.name or function_name(closure.node))
        self.active.append(closure.node.start_byte)
        self.targets.append(mark)
        self.returned.append([])
        self.references.append(_is_reference(closure.node))
        try:
            if body is not None:
                self.execute(body)
        finally:
            self.scopes = outside
            self.calls.pop()
            self.active.pop()
            self.targets.pop()
            is_reference = self.references.pop()
            del self.context[mark:], self.bounds.facts[facts:]
            self.exits[first:] = [e for e in self.exits[first:] if e.target < mark]
        result = self._result(closure, self.returned.pop(), node)
        if not is_reference or not isinstance(result, Pointer):
            return result
        place = self.deref(result, node)
        if self.wanted == node.start_byte:
            self.referred_to = place
            return result
        return self.fetch(place, node)

    def referred(self, node: Node) -> tuple[Value, Place | None]:
        outside, self.wanted, self.referred_to = self.wanted, node.start_byte, None
        value = self.evaluate(node)
        found, self.wanted, self.referred_to = self.referred_to, outside, None
        return value, found

    def result(self, node: Node | None) -> Value | None:
        """What a return statement gives: of a function that returns a reference to an element, where that is."""
        if node is not None and self.references and self.references[-1]:
            place = self.place(node)
            return self.address_of(place, node) if isinstance(place, ArrayPlace) else self.fetch(place, node)
        return self.evaluate(node) if node is not None else None

    def _bind(self, closure: Closure, arguments: list[Node | Value], bound: Scope, node: Node) -> None:
        """Parameters by name, template parameters by what the arguments are."""
        names = {name for name, _, is_type in template_params(closure.node) if is_type}
        self.scopes.append({**bound})
        try:
            for at, param in enumerate(function_params(closure.node)):
                argument: Node | Value | None = arguments[at] if at < len(arguments) else param.child("default_value")
                if argument is None:
                    continue
                kind_node, declarator = param.child("type"), param.child("declarator")
                is_open = kind_node is not None and kind_node.text in names and kind_node.text not in bound
                base = AUTO if is_open else self.base_type(kind_node, qualifiers_of(param))
                declared = (
                    self.declared(base, declarator) if declarator is not None else Declarator("", base, False, None)
                )
                binding = self._argument(declared, argument, node)
                self._deduce_arguments(closure.node, kind_node, binding, bound)
                if is_open and kind_node is not None and (found := _deduced(binding, declared)) is not None:
                    bound[kind_node.text] = self.scopes[-1][kind_node.text] = found
                if declared.name:
                    bound[declared.name] = binding
        finally:
            self.scopes.pop()

    def _deduce_arguments(self, function: Node, kind: Node | None, binding: object, bound: Scope) -> None:
        """Template parameters from an argument such as `Augmented<N>& s`: N is that of the struct that is passed."""
        given = kind.child("arguments") if kind is not None and kind.type == "template_type" else None
        held = binding.type if isinstance(binding, Cell | ArrayPlace) else None
        known = self.struct_nodes.get(held.name) if held is not None else None
        if given is None or known is None:
            return
        open_names = {name for name, _, _ in template_params(function)}
        names = given.inside
        for name, value in zip(names, known[1].values(), strict=False):
            if name.text in open_names:
                bound[name.text] = self.scopes[-1][name.text] = value

    def _argument(self, declared: Declarator, argument: Node | Value, node: Node) -> Binding | Chosen:
        if declared.is_reference and isinstance(argument, Node) and argument.type not in ("initializer_list",):
            place = self.place(argument)
            is_typed = isinstance(place, ArrayPlace) and place.type.kind == "array" and declared.type.kind == "array"
            return ArrayPlace(place.term, place.type) if is_typed and isinstance(place, ArrayPlace) else place
        value = self.evaluate(argument) if isinstance(argument, Node) else argument
        if isinstance(value, StructValue) and value.type.kind == "auto":
            value = self.shaped(value, declared.type, node)
        kind = declared.type
        if kind.kind == "array" and kind.of is not None:  # float x[] is a pointer
            return Cell(declared.name, kind, value, self.frame)
        if kind.kind == "auto" or (kind.kind == "pointer" and kind.leaf.of is not None and kind.of == AUTO):
            return Cell(declared.name, getattr(value, "type", AUTO), value, self.frame)
        return Cell(declared.name, kind, self.converted(value, kind, node), self.frame)

    def _result(self, closure: Closure, returned: list[tuple[Condition, Value]], node: Node) -> Value:
        """What the returns of a function give together."""
        if not returned:
            return number(0)
        *early, (_, result) = returned
        for condition, value in reversed(early):
            result = self.merged(condition, value, result, node)
        kind_node = closure.node.child("type")
        if kind_node is not None and kind_node.type in ("primitive_type", "sized_type_specifier"):
            declarator = closure.node.child("declarator")
            is_plain = declarator is not None and declarator.type == "function_declarator"
            return self.converted(result, self.base_type(kind_node), node) if is_plain else result
        if isinstance(result, StructValue) and result.type.kind == "auto" and kind_node is not None:
            return self.shaped(result, self.base_type(kind_node), node)
        return result

    def returns(self, value: Value | None, node: Node) -> None:
        """A return statement with its value."""
        if self.is_dead:
            return
        mark = self.targets[-1] if self.targets else 0
        inside = all_of(part for part in self.context[mark:] if not isinstance(part, Symbol))
        if value is not None and self.returned:
            self.returned[-1].append((inside if inside != NEVER else ALWAYS, value))
        self.leave_node("return", node)
        self.leave("return", mark)

    # Values in braces.

    def construct(self, kind: CType, nodes: list[Node], node: Node) -> Value:
        """`T(a, b)` or `T{a, b}`."""
        if kind.kind in ("struct", "vector"):
            if len(nodes) == 1 and kind.kind == "struct":
                value = self.evaluate(nodes[0])
                if isinstance(value, StructValue) and value.type.name == kind.name:
                    return value
                return self.record_of(kind, [value], node)
            return self.record_of(kind, [self.evaluate(argument) for argument in nodes], node)
        if not nodes:
            return self._zero(kind)
        return self.cast(kind, self.evaluate(nodes[0]), node)

    def shaped(self, value: StructValue, kind: CType, node: Node) -> Value:
        """A list in braces as a value of a type."""
        given = [self.fetch(binding, node) for binding in value.fields.values()]
        if kind.kind in ("struct", "vector"):
            return self.record_of(kind, given, node)
        if kind.kind in ("array", "auto", "other"):
            return value
        return self.converted(given[0], kind, node) if given else self._zero(kind)

    def listed(self, node: Node) -> StructValue:
        """`{a, b}` before its type is known: numbered fields."""
        fields: dict[str, Binding] = {}
        for at, child in enumerate(node.inside):
            inner = child.child("value") if child.type == "initializer_pair" else child
            value = self.evaluate(inner or child)
            fields[str(at)] = Cell(str(at), getattr(value, "type", AUTO), value, self.frame)
        return StructValue(AUTO, fields)


def _is_reference(function: Node) -> bool:
    declarator = function.child("declarator")
    return declarator is not None and declarator.type == "reference_declarator"


def _name_of(function: Node) -> tuple[str, Node | None]:
    """The bare name that is called, and its template arguments."""
    node: Node | None = function
    while node is not None and node.type == "qualified_identifier":
        node = node.child("name")
    if node is not None and node.type in ("template_function", "template_type", "template_method"):
        name = node.child("name")
        return (name.text if name is not None else "", node.child("arguments"))
    return (node.text if node is not None else "", None)


def _deduced(binding: object, declared: Declarator) -> CType | None:
    value = binding.value if isinstance(binding, Cell) else None
    if isinstance(binding, ArrayPlace):
        return binding.type.leaf
    if isinstance(binding, Part):
        return binding.type
    if isinstance(value, Pointer):
        return value.of if declared.type.kind == "pointer" else None
    if isinstance(value, Number | Real | StructValue):
        return value.type
    return None
