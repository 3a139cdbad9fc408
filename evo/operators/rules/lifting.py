"""Values of the access analysis as C++: what a rule needs that writes a kernel's body anew from what the form says."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from evo.analysis.access import Combined, Compare, Condition, Data, LaunchAnalysis, Symbol, Term
from evo.analysis.access.contraction_roles import element_names
from evo.analysis.access.data_values import is_number
from evo.analysis.access.renaming import in_indices
from evo.analysis.access.terms import Atom, Op
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.rule_context import RuleContext
from evo.spec.expr import Expression
from evo.spec.task import Tensor
from evo.spec.variant import LaunchLine, Scratch

# Of an element as a kernel declares it: the type that sums are kept in, and how a value gets there and back.
_CONVERSIONS = {
    "float": ("float", "{}", "{}"),
    "half": ("float", "__half2float({})", "__float2half({})"),
    "bfloat16": ("float", "__bfloat162float({})", "__float2bfloat16({})"),
    "double": ("double", "{}", "{}"),
    "int": ("int", "{}", "{}"),
    **{byte: ("int", "{}", f"({byte})({{}})") for byte in ("signed char", "unsigned char")},
}
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}
_BITS = {"div": "/", "mod": "%", "shr": ">>", "and": "&", "or": "|", "xor": "^"}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_CALLS = frozenset({
    "expf", "exp", "tanhf", "tanh", "sqrtf", "sqrt", "rsqrtf", "logf", "log", "fabsf", "fabs", "erff", "powf", "log1pf",
    "expm1f", "sinf", "cosf", "__expf", "__logf", "__fdividef",
})  # fmt: skip
_OPERAND = 3  # a name, a call or what stands in brackets
_WORDS = re.compile(r"\$?[A-Za-z_]\w*")
_BRACKETS = re.compile(r"\([^()]*\)")
_DEFINED = re.compile(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)")


class NotPrinted(Exception):
    """A value that has no spelling. Internal: the rule does not apply."""


@dataclass(frozen=True, slots=True)
class Printer:
    """Spells values of one kernel. places: terms of the old indices and the new expressions for them; values: by the
    name of what a loop left, the new name; begun: the names of those that hold already what the loop began with.
    """

    analysis: LaunchAnalysis
    names: Mapping[str, str]  # of tensors, scalars and axes, in the kernel
    places: Mapping[Term, str]
    values: Mapping[str, str]
    reads: Mapping[int, str] = field(default_factory=dict)  # by number of the access: what was kept of it
    begun: Collection[str] = ()
    at: tuple[Term, ...] = ()  # the output's subscripts, in whose names what is no place may be said

    def value(self, data: Data | None) -> str:
        """An operand of what stands around it. Raises NotPrinted."""
        text, rank = self._ranked(data)
        return text if rank == _OPERAND else f"({text})"

    def expression(self, data: Data | None) -> str:
        """A value that stands alone. Raises NotPrinted."""
        return self._ranked(data)[0]

    def _ranked(self, data: Data | None) -> tuple[str, int]:
        """A value, and how much what it ends with binds: as a choice, a sum, a product or an operand."""
        if data is None:
            raise NotPrinted("nothing")
        match data.op:
            case "same" | "convert":
                return self._ranked(data.args[0])
            case "constant":
                return _number(data.detail), _OPERAND
            case "scalar":
                return self._name(str(data.detail)), _OPERAND
            case "index":
                assert isinstance(data.detail, Term)
                return self.term(data.detail), _OPERAND
            case "result" | "carried":
                name = str(getattr(data.detail, "name", ""))
                if name in self.values:
                    initial = data.args[0] if data.args else None
                    said = self.values[name]
                    is_whole = name in self.begun or is_zero(initial)
                    return (said, _OPERAND) if is_whole else (f"{self.value(initial)} + {said}", 1)
            case "add" | "sub" | "mul" | "div" if len(data.args) == 2:
                rank = 1 if data.op in ("add", "sub") else 2
                (left, before), (right, behind) = (self._ranked(arg) for arg in data.args)
                left, right = left if before >= rank else f"({left})", right if behind > rank else f"({right})"
                return f"{left} {_INFIX[data.op]} {right}", rank
            case "max" | "min" if len(data.args) == 2:
                return f"f{data.op}({self.expression(data.args[0])}, {self.expression(data.args[1])})", _OPERAND
            case "neg":
                return f"(-{self.value(data.args[0])})", _OPERAND
            case "call" if str(data.detail) in _CALLS:
                return f"{data.detail}({', '.join(self.expression(arg) for arg in data.args)})", _OPERAND
            case "read":
                return self._read(data), _OPERAND
            case "select" if isinstance(data.detail, Condition) and len(data.args) == 2:
                taken, other = (self.value(arg) for arg in data.args)
                return f"{self._condition(data.detail)} ? {taken} : {other}", 0
        raise NotPrinted(data.op)

    def _condition(self, condition: Condition) -> str:
        """A comparison of two values or terms, or several that are joined. Raises NotPrinted."""
        if isinstance(condition, Compare):
            parts = condition.term.parts.items()
            high, low = Term({m: n for m, n in parts if n > 0}), Term({m: -n for m, n in parts if n < 0})
            return f"({self.term(high)} {condition.relation} {self.term(low)})"
        if isinstance(condition, Combined):
            word = " && " if condition.word == "and" else " || "
            return f"({word.join(self._condition(each) for each in condition.items)})"
        known = self.analysis.form.values.get(condition.symbol)
        compared = known.data if known is not None else None
        if compared is None or compared.op not in ("less", "equal") or len(compared.args) != 2:
            raise NotPrinted(condition.wording)
        # What is less stands first, whichever way round the text says it.
        word = str(compared.detail).replace(">", "<")
        left, right = (self.value(arg) for arg in compared.args)
        return f"{'!' if condition.is_negated else ''}({left} {word} {right})"

    def _read(self, data: Data) -> str:
        if isinstance(data.detail, int) and data.detail in self.reads:
            return self.reads[data.detail]
        access = self.analysis.form.accesses[data.detail] if isinstance(data.detail, int) else None
        if access is None or not access.is_global or access.index is None:
            raise NotPrinted("a read that is no element of a tensor")
        tensor = next((t for t in self.analysis.task.tensors if t.name == access.memory.name), None)
        if tensor is None:
            raise NotPrinted(access.memory.name)
        at = self.element(tensor, [self.term(term) for term in access.subscripts]) if access.subscripts else ""
        return converted(access.memory.element, at or f"{self._name(tensor.name)}[{self.term(access.index)}]")

    def element(self, tensor: Tensor | Scratch, at: list[str]) -> str:
        """`name[...]` at subscripts, by rows."""
        return f"{self._name(tensor.name)}[{self.offset(tensor, at)}]"

    def offset(self, tensor: Tensor | Scratch, at: list[str]) -> str:
        said = ""
        for place, (index, dim) in enumerate(zip(at, tensor.shape, strict=True)):
            if place == 0:
                said = index
                continue
            size = self.extent(dim)
            is_one = _WORDS.fullmatch(said) or _BRACKETS.fullmatch(said)
            said = f"{said} * {size}" if is_one else f"({said}) * {size}"
            said = index if said.startswith("0 *") else said if index == "0" else f"{said} + {index}"
        return said

    def extent(self, dim: Expression) -> str:
        """A size of a tensor in the kernel's names."""
        if dim.text.isdigit():
            return dim.text
        said = _WORDS.sub(lambda match: self._name(match[0]), dim.text.replace("//", "/"))
        return said if _WORDS.fullmatch(said) or _WORDS.fullmatch(dim.text) else f"({said})"

    def term(self, term: Term) -> str:
        """An index in the new names. Raises NotPrinted if an old one is left."""
        if term in self.places:
            return self.places[term]
        if term.value is not None:
            return str(term.value)
        form = self.analysis.form
        if term.symbols() & form.derived.keys():
            return self.term(term.substitute(dict(form.derived)))
        atom = term.atom
        if isinstance(atom, Symbol) and atom in form.values:
            return self.value(form.values[atom].data)
        if isinstance(atom, Symbol) and atom.kind == "axis" and atom.name in self.names:
            return self.names[atom.name]
        if isinstance(atom, Op) and atom.name in _BITS and len(atom.args) == 2:
            operands = [self.term(each).removeprefix("(int)") for each in atom.terms]  # the whole is cast
            bits = f"({operands[0]} {_BITS[atom.name]} {operands[1]})"
            return f"(int){bits}" if any(self._is_word(symbol) for symbol in atom.symbols()) else bits
        if isinstance(atom, Op) and atom.name == "select" and isinstance(atom.args[0], Condition):
            choices = [self.term(each) for each in atom.terms]
            return f"({self._condition(atom.args[0])} ? {' : '.join(choices)})"
        seen = in_indices(term, self.at, element_names(self.at)) if self.at else term
        if seen != term:
            return self.term(seen)
        if term.atom is not None or term.value is not None:
            raise NotPrinted(term.text)
        said = ""
        for mono, n in term.parts.items():
            sign = (" - " if n < 0 else " + ") if said else "-" * (n < 0)
            said += sign + self._product(mono, abs(n))
        return f"({said})"

    def _is_word(self, symbol: Symbol) -> bool:
        """Whether a value is read of an element whose arithmetic is unsigned, as that of its bits is not."""
        known = self.analysis.form.values.get(symbol)
        access = self.analysis.form.accesses[known.access] if known is not None and known.access is not None else None
        return access is not None and access.memory.element.startswith("unsigned") and access.memory.element_bytes >= 4

    def _product(self, factors: Sequence[Atom], number: int) -> str:
        said = [self.term(Term.of(factor)) for factor in factors]
        return " * ".join([*said, str(number)] if number != 1 or not said else said)

    def _name(self, name: str) -> str:
        if name not in self.names:
            raise NotPrinted(f"{name} is no parameter of the kernel")
        return self.names[name]


def is_zero(data: Data | None) -> bool:
    """Whether a value is the number 0; one that nothing is known of begins as it."""
    return data is None or is_number(data, 0)


def names_of(ctx: RuleContext, function: Function) -> dict[str, str]:
    """What the kernel calls tensors, scratch, scalars and axes: by place in its parameters, or as macros."""
    task = ctx.declared
    given = [t.name for t in task.tensors] + [s.name for s in ctx.variant.scratch] + [s.name for s in task.scalars]
    given += list(task.axes)
    own = [line.args for line in ctx.variant.launches if line.kernel == function.name]
    found = dict(zip(given, (param.name for param in function.params), strict=False))
    if any(args is not None for args in own):
        # Launched twice with other arguments, a parameter has no one name.
        texts = {tuple(arg.text for arg in args or ()) for args in own}
        found = dict(zip(texts.pop(), (p.name for p in function.params), strict=False)) if len(texts) == 1 else {}
    found = {**{macro: macro for macro in ctx.variant.macros}, **found}
    return {**_quotients(found, ctx.axes), **found}


def _quotients(names: Mapping[str, str], axes: Collection[str]) -> dict[str, str]:
    """Axes that a kernel gets as a factor of a number alone, `(C / NH)`, where it gets the other factor too."""
    found: dict[str, str] = {}
    for text, name in names.items():
        parts = [part.strip() for part in text.split("*")]
        for part in parts if len(parts) == 2 else ():
            other = names.get(parts[parts[0] == part])
            if part in axes and part not in names and other is not None and name.isidentifier():
                found[part] = f"({name} / {other})"
    return found


def with_quotients(body: str, names: Mapping[str, str]) -> str:
    """A body that works out once, and by its own name, an axis that the kernel gets as a factor of a number alone."""
    own = {axis: said for axis, said in names.items() if said.startswith("(") and said in body}
    for axis, said in own.items():
        name = axis if not re.search(rf"\b{axis}\b", body) else f"{axis}_"
        body = f"{{\n    const int {name} = {said[1:-1]};{body.replace(said, name)[1:]}"
    return body


def with_axes(
    ctx: RuleContext, function: Function, line: LaunchLine, axes: Collection[str]
) -> tuple[dict[str, str], list[Edit], str]:
    """What the kernel calls things once it has these axes, the edits that add parameters for those that it lacks, and
    the launch line's `args (...)`. Where arguments go by their order, it gets the axes in front of those too. Raises
    NotPrinted if it lacks more than axes.
    """
    names = names_of(ctx, function)
    missing = [axis for axis in sorted(axes) if axis not in names]
    if not missing:
        return names, [], line.args_text
    lines = [each for each in ctx.variant.launches if each.kernel == function.name]
    if line.args is None and (passed := [axis for axis in ctx.declared.axes if axis not in ctx.variant.macros]):
        has = len(names) - len(ctx.variant.macros) - (len(ctx.declared.tensors) + len(ctx.declared.scalars))
        has -= len(ctx.variant.scratch)
        missing = passed[has : 1 + max(map(passed.index, missing))] if has >= 0 else []
    if not missing or len(lines) > 1 or not function.params:
        raise NotPrinted(f"the kernel does not get {', '.join(missing)}")
    words = {name for name, _ in ctx.source.names(function.span)} | taken(ctx, names)
    own = {axis: f"{axis}_" if axis in words else axis for axis in missing}
    head = Span(function.name_span.end, function.body.start)
    text = ctx.source.slice(head)
    if ")" not in text:
        raise NotPrinted("the kernel's parameters")
    end = head.start + len(text[: text.rindex(")")].encode())
    edit = Edit(Span(end, end), "".join(f", int {name}" for name in own.values()))
    arguments = line.args_text and line.args_text[:-1] + "".join(f", {axis}" for axis in missing) + ")"
    return {**names, **own}, [edit], arguments


def accumulator(element: str) -> str | None:
    """The type in which elements of a type are summed."""
    return _CONVERSIONS[element][0] if element in _CONVERSIONS else None


def converted(element: str, text: str) -> str:
    """A stored element as a number of its accumulator's type."""
    return _CONVERSIONS[element][1].format(text) if element in _CONVERSIONS else text


def stored(element: str, text: str) -> str:
    return _CONVERSIONS[element][2].format(text) if element in _CONVERSIONS else text


def _number(value: object) -> str:
    if isinstance(value, int | float) and math.isfinite(value):
        text = repr(float(value))
        return f"{text}f"
    if isinstance(value, float) and math.isinf(value):
        return f"__int_as_float(0x{'7f' if value > 0 else 'ff'}800000)"
    raise NotPrinted(str(value))


def type_of_elements(ctx: RuleContext, function: Function, pointer: str) -> str:
    """As the text writes it. Raises NotPrinted for a name that has two."""
    kind = ctx.source.element_type(function.name, pointer)
    if kind is None:
        raise NotPrinted(f"{pointer} has two types")
    return kind


def named(text: str, taken: Collection[str], constants: Mapping[str, str] | None = None) -> str:
    """A body whose own names are written `$name`: each as it is, or with a dash, or more, if the kernel has that name.

    constants: names in capitals, and what they are called here.
    """
    for word, name in (constants or {}).items():
        text = re.sub(rf"(?<![$\w]){word}\b", name, text) if word != name else text
    return re.sub(r"\$(\w+)", lambda match: _free(match[1], taken), text)


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def taken(ctx: RuleContext, names: Mapping[str, str]) -> set[str]:
    """Names that a new body cannot declare: parameters, macros and knobs."""
    return {*names.values(), *ctx.variant.macros, *ctx.variant.knob_values, *_DEFINED.findall(ctx.variant.text)}


def in_c(node: ast.expr, names: Mapping[str, str]) -> str:
    """An expression of a launch line as the kernel spells it: a product that it gets as one number by that number's
    name. Raises NotPrinted.
    """
    whole = ast.unparse(node).replace(" ", "")
    match node:
        case ast.Constant(value=int(value)):
            return str(value)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp() if given := [name for text, name in names.items() if text.replace(" ", "") == whole]:
            return given[0]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return f"({in_c(left, names)} {_OPERATORS[type(op)]} {in_c(right, names)})"
        case ast.Call(func=ast.Name(id="ceil_div"), args=[first, second]):
            per = in_c(second, names)
            return f"(({in_c(first, names)} + {per} - 1) / {per})"
    raise NotPrinted(ast.unparse(node))
