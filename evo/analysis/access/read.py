"""From a variant to forms: one for each launch line, with the task's tensors, axes and the launch's extents bound."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from evo.analysis.access.c_types import DTYPE_TYPES, FLOAT, INT, OTHER, CType
from evo.analysis.access.comparisons import ALWAYS, Condition, all_of, any_of, compare
from evo.analysis.access.declarators import function_params, qualifiers_of
from evo.analysis.access.delinearise import with_subscripts
from evo.analysis.access.form import BLOCK, THREAD, Access, Array, Branch, Data, Form, Nest, Node
from evo.analysis.access.preprocess import Expanded, ExpansionTooLong, expand
from evo.analysis.access.simplify import choose, divide, larger, remainder, smaller
from evo.analysis.access.statements import StatementReader
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import ONE, ZERO, Symbol, Term, apply
from evo.analysis.access.values import Cell, Number, Pointer, Real, Value, truth
from evo.cuda.source.parser import Node as SyntaxNode
from evo.cuda.source.parser import read
from evo.spec.chips import Chip
from evo.spec.element_types import is_float
from evo.spec.expr import Expression
from evo.spec.task import Case, Task
from evo.spec.variant import LaunchLine, Variant


def read_forms(variant: Variant, task: Task, macros: Mapping[str, int], chip: Chip | None = None) -> tuple[Form, ...]:
    """The form of every launch of a variant. macros: the axes that are compiled in, with their values at a case.

    What is proven about axes holds for the cases that the task declares, all with those values. chip: gives the numbers
    of `chip.*` in launch lines. A launch whose kernel the file does not define is left out, and so are all of a file
    whose macros stand for more text than can be read.
    """
    data = variant.text.encode()
    try:
        text = expand(data, macros, task.headers)
    except ExpansionTooLong:
        return ()
    tree = read(text.data)
    found = []
    for position, line in enumerate(variant.launches):
        form = _Reader(variant, task, macros, chip, text, data).form(tree, line, position)
        if form is not None:
            found.append(form)
    return tuple(found)


def axis_values(task: Task, case: Case) -> dict[Symbol, int]:
    """The axes and integer scalars of a case by symbol."""
    values = {Symbol(name, "axis"): value for name, value in case.axes.items()}
    for name, number in task.scalar_values(case).items():
        if isinstance(number, int):
            values[Symbol(name, "axis")] = number
    return values


class _Reader(StatementReader):
    """Reads one kernel of a launch line."""

    def __init__(
        self, variant: Variant, task: Task, macros: Mapping[str, int], chip: Chip | None, text: Expanded, data: bytes
    ) -> None:
        # Other cases too, with these values put in: few cases have them, and their sizes are not meant to be special.
        given = [replace(case, axes={**case.axes, **macros}) for case in (*task.check, *task.bench)]
        super().__init__(text, data, Bounds([axis_values(task, case) for case in given]))
        self.variant, self.task = variant, task
        self.chip = chip.names() if chip is not None else {}
        self.names: dict[str, Term] = {}
        for axis in task.axes:
            symbol = Symbol(axis, "axis")
            values = [case.axes[axis] for case in (*task.check, *task.bench) if axis in case.axes]
            self.bounds.declare(symbol, Term.number(min(values, default=0)))
            if task.axes[axis] == "bool":
                self.bounds.declare(symbol, ZERO, ONE)
            self.names[axis] = Term.number(macros[axis]) if axis in macros else Term.of(symbol)
        self.names |= {name: Term.number(value) for name, value in variant.integer_knobs.items()}

    def form(self, tree: SyntaxNode, line: LaunchLine, position: int) -> Form | None:
        grid, block = self._extent(line.grid), self._extent(line.block)
        self.extents = {"gridDim": grid, "blockDim": block}
        for symbols, counts in ((BLOCK, grid), (THREAD, block)):
            for symbol, count in zip(symbols, counts, strict=True):
                self.bounds.declare(symbol, ZERO, count - 1)
                # A grid of no block runs nothing: where a thread is, every extent is 1 or more.
        self.read_file(tree)
        if line.kernel not in self.functions:
            return None
        kernel = self.functions[line.kernel][-1]
        scope = self.scopes[0]
        self.scopes.append({})
        self._parameters(kernel, line)
        body = kernel.child("body")
        self.targets.append(0)
        self.returned.append([])
        if body is not None:
            self.execute(body)
        del self.scopes[1:], scope
        finished = {access.number: with_subscripts(access, self.bounds) for access in self.accesses}
        text = self.data.decode(errors="replace")
        return Form(
            kernel=line.kernel, position=position, grid=grid, block=block, shared_bytes=self.term_of(line.shared),
            arrays=tuple(self._used(finished)), loops=self.loops, accesses=tuple(finished.values()),
            body=_finished(self.nodes[0], finished), barriers=tuple(self.barriers), exchanges=tuple(self.exchanges),
            multiplies=tuple(self.multiplies), blocked=tuple(self.blocked.values()), values=self.values,
            derived={symbol: term for term, symbol in self.derived.items()}, names=self.named,
            doubles=tuple(self.doubles), bounds=self.bounds, text=text,
        )  # fmt: skip

    def _used(self, finished: Mapping[int, Access]) -> list[Array]:
        touched = {access.array.address for access in finished.values() if access.array is not None}
        return [array for array in self.arrays.values() if array.address in touched or array.role]

    def _extent(self, expressions: tuple[Expression, ...]) -> tuple[Term, Term, Term]:
        terms = [self.term_of(expression) for expression in expressions] + [ONE, ONE]
        return terms[0], terms[1], terms[2]

    def term_of(self, expression: Expression) -> Term:
        """An expression of a task or launch line as a term."""
        return self._from(expression.tree)

    def _from(self, node: ast.expr) -> Term:
        match node:
            case ast.Constant(value=int(value)):
                return Term.number(value)
            case ast.Name(id=name):
                return self.names.get(name, Term.of(Symbol(name, "axis")))
            case ast.Attribute(attr=attr):
                if attr in self.chip:
                    return Term.number(int(self.chip[attr]))
                symbol = Symbol(f"chip.{attr}", "chip")
                self.bounds.declare(symbol, ONE)
                return Term.of(symbol)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary_of(op, self._from(left), self._from(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._from(operand)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return choose(self.bounds, self._condition_of(test), self._from(body), self._from(orelse))
            case ast.Call(func=ast.Name(id=name), args=args):
                terms = [self._from(arg) for arg in args]
                if name == "ceil_div":
                    return divide(self.bounds, terms[0] + terms[1] - 1, terms[1])
                joined = terms[0]
                for term in terms[1:]:
                    joined = (smaller if name == "min" else larger)(self.bounds, joined, term)
                return joined
        return truth(self._condition_of(node)).term

    def _binary_of(self, op: ast.operator, left: Term, right: Term) -> Term:
        match op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.FloorDiv():
                return divide(self.bounds, left, right)
            case ast.Mod():
                return remainder(self.bounds, left, right)
        word = {ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
        return apply(word.get(type(op), "div"), left, right)

    def _condition_of(self, node: ast.expr) -> Condition:
        match node:
            case ast.BoolOp(op=op, values=values):
                parts = [self._condition_of(value) for value in values]
                return all_of(parts) if isinstance(op, ast.And) else any_of(parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._condition_of(operand).negated()
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                found: list[Condition] = []
                last = self._from(left)
                for relation, comparator in zip(ops, comparators, strict=True):
                    right = self._from(comparator)
                    found.append(_compared(relation, last, right))
                    last = right
                return all_of(found)
        return compare(self._from(node), "!=")

    # Parameters in the order that the launch line names, or else the task: tensors, scratch, scalars, axes.

    def _parameters(self, kernel: SyntaxNode, line: LaunchLine) -> None:
        given = self._arguments()
        if line.args is not None:
            named = dict(given)
            given = [(arg.text, named.get(arg.text) or self._given(arg)) for arg in line.args]
        for param, (name, value) in zip(function_params(kernel), given, strict=False):
            declarator = param.child("declarator")
            if declarator is None:
                continue
            declared = self.declared(self.base_type(param.child("type"), qualifiers_of(param)), declarator)
            kind = declared.type
            given_as = value
            if isinstance(value, Pointer):
                of = kind.of if kind.of is not None and kind.of.size else value.of
                given_as = Pointer(value.term, of or OTHER)
                self._rename(name, declared.name)
            self.scopes[-1][declared.name] = Cell(declared.name, kind, given_as, 0)

    def _given(self, arg: Expression) -> Value:
        """A value that a launch line passes: of integers a term, of reals what is the same in every thread."""
        reals = {scalar.name for scalar in self.task.scalars if is_float(scalar.dtype)}
        real = arg.names & reals or any(
            isinstance(node, ast.Div)
            or (isinstance(node, ast.Name) and node.id in ("sqrt", "log2"))
            or (isinstance(node, ast.Constant) and isinstance(node.value, float))
            for node in ast.walk(arg.tree)
        )
        return Real(Data("scalar", detail=arg.text), FLOAT) if real else Number(self._from(arg.tree), INT)

    def _rename(self, name: str, parameter: str) -> None:
        for address, array in self.arrays.items():
            if array.name == name and array.role:
                self.arrays[address] = replace(array, parameter=parameter)

    def _arguments(self) -> list[tuple[str, Value]]:
        found: list[tuple[str, Value]] = []
        for tensor in self.task.tensors:
            shape = tuple(
                self.abbreviated(f"{tensor.name}.shape[{at}]", self.term_of(dim)) for at, dim in enumerate(tensor.shape)
            )
            found.append((tensor.name, self._tensor(tensor.name, tensor.dtype, shape, tensor.role)))
        for scratch in self.variant.scratch:
            shape = tuple(self.term_of(dim) for dim in scratch.shape)
            found.append((scratch.name, self._tensor(scratch.name, scratch.dtype, shape, "scratch")))
        for scalar in self.task.scalars:
            kind = DTYPE_TYPES.get(scalar.dtype, INT)
            if kind.kind == "int":
                found.append((scalar.name, Number(Term.of(Symbol(scalar.name, "axis")), kind)))
            else:
                found.append((scalar.name, Real(Data("scalar", detail=scalar.name), kind)))
        found += [(axis, Number(self.names[axis], INT)) for axis in self.task.axes]
        return found

    def _tensor(self, name: str, dtype: str, shape: tuple[Term, ...], role: str) -> Pointer:
        kind: CType = DTYPE_TYPES.get(dtype, INT)
        place = self.array(name, "global", kind, None, shape=shape, role=role)
        return Pointer(place.term, kind)


def _compared(op: ast.cmpop, left: Term, right: Term) -> Condition:
    match op:
        case ast.Lt():
            return compare(right - left - 1, ">=")
        case ast.LtE():
            return compare(right - left, ">=")
        case ast.Gt():
            return compare(left - right - 1, ">=")
        case ast.GtE():
            return compare(left - right, ">=")
        case ast.Eq():
            return compare(left - right, "==")
        case ast.NotEq():
            return compare(left - right, "!=")
    return ALWAYS


def _finished(nodes: list[Node], finished: Mapping[int, Access]) -> tuple[Node, ...]:
    """The tree with accesses as they were finished."""
    out: list[Node] = []
    for node in nodes:
        if isinstance(node, Access):
            out.append(finished[node.number])
        elif isinstance(node, Nest):
            out.append(Nest(loop=node.loop, body=_finished(list(node.body), finished)))
        elif isinstance(node, Branch):
            then, otherwise = (_finished(list(side), finished) for side in (node.then, node.otherwise))
            out.append(Branch(condition=node.condition, then=then, otherwise=otherwise, span=node.span, line=node.line))
        else:
            out.append(node)
    return tuple(out)
