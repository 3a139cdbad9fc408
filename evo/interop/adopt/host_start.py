"""Where host code is started: `main`, a launcher that nobody calls, or a method of a class that nobody makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evo.cuda.source.parser import Node
from evo.cuda.source.types import declarator_name, text_of
from evo.interop.adopt.host_expressions import bare_type
from evo.interop.adopt.host_lambdas import HostLambdas
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, size_word
from evo.interop.adopt.host_records import RecordType
from evo.interop.adopt.host_values import Address, Allocation, DevicePointer, HostEvent, HostVariable, problem
from evo.interop.adopt.parameters import Parameter, parameters_of
from evo.interop.adopt.python_source import LauncherArgument
from evo.interop.adopt.top_level_items import function_name, words_of

_EARLY = 6  # turns of a loop, of which the last stands for all


class HostStart(HostLambdas):
    """Gives functions, constructors and fields what nobody gives them: pointers by their names, sizes by guesses."""

    passed: Mapping[str, list[LauncherArgument]]  # what Python code calls a launcher with
    wanted: str | None  # the kernel whose launches are adopted
    touches_gpu: Callable[[Node], bool]  # whether code launches, or calls the runtime
    argc: int  # how many words the program is started with

    def start(self, function: Node, defaults: Mapping[str, int], owner: str = "") -> None:
        """Run one function, whose sizes are given or taken from defaults. owner: the class whose method it is."""
        fields = self._object(self.records[owner], defaults) if owner else None
        passed = self.passed.get(function_name(function), [])
        arguments, params = [], parameters_of(function)
        self.beside = {param.name: said.dims or [] for param, said in zip(params, passed, strict=False)}
        for place, param in enumerate(params):
            said = passed[place] if place < len(passed) else LauncherArgument()
            arguments.append(self._assumed(function, param, said, defaults))
        self.run_function(function, arguments, fields)

    def _object(self, record: RecordType, defaults: Mapping[str, int]) -> dict[str, HostVariable]:
        """The fields of an object as its first constructor leaves them; without one, they are given like arguments."""
        for word in record.params:
            self.types.setdefault(word, "float")
        self.types |= record.aliases
        made = self.empty(record)
        maker = next(iter(record.constructors), None)
        if maker is not None:
            params = parameters_of(maker)
            given = [self._assumed(maker, param, LauncherArgument(), defaults) for param in params]
            self.construct(made, maker, given)
        for name, cell in made.fields.items():
            if cell.value is None and not self.is_record(cell.type):
                assert record.node is not None
                cell.value = self._assumed(record.node, Parameter(cell.type, name), LauncherArgument(), defaults)
        return self.inside_of(made)

    def _assumed(self, function: Node, param: Parameter, said: LauncherArgument, defaults: Mapping[str, int]) -> object:
        kind, name = param.kind, param.name
        if "Tensor" in kind:
            return self.given_tensor(function, name, said)
        if name in ("argc", "argv"):
            return HostNumber.number(self.argc) if name == "argc" else None
        if "*" in kind or "[" in kind:
            return DevicePointer(Allocation(name, UNKNOWN, function.row + 1, True, element=bare_type(kind)))
        if bare_type(kind) in ("float", "double", "__half"):
            return HostNumber.named(name, said.number if said.number is not None else self.size(param.default).value)
        if "cudaStream_t" in kind or "Handle" in kind:
            return UNKNOWN
        known = said.number if said.number is not None else defaults.get(name)
        if known is None and param.default is not None:
            known = self.size(param.default).value
        name = size_word(name)
        value = self.given.get(name, int(known) if known is not None else None)
        self.named[name] = value
        if name not in self.given and said.number is None:
            self.unknown_sizes.append(name)
        return HostNumber.named(name, value)

    def last_of(self, loop: Node) -> None:
        """`for (int n : sizes)`: of a sweep over sizes, the last turn; of pointers, `{&a, &b}`, all turns before it."""
        right, kind = loop.child("right"), text_of(loop.child("type"))
        declared = loop.child("declarator")
        name = declarator_name(declared) if declared is not None else None
        body = loop.child("body")
        if right is None or name is None or body is None:
            return
        is_list = right.type == "initializer_list"
        held = None if is_list else self.value(right)
        items = [self.value(each) for each in right.inside] if is_list else getattr(held, "items", ())
        cell = self.scopes[-1][name] = HostVariable(name, kind)
        if items and all(isinstance(item, Address | DevicePointer) for item in items):
            for item in items[:-1]:
                cell.value = item
                self.execute(body)
            cell.value = items[-1]
        elif items:
            self.store(cell, items[-1])
            self.notes.append(f"line {loop.row + 1}: of the turns of the loop, the last is adopted")
        elif self.is_integer(kind):
            cell.value = self.guessed(name)

    def without_gpu(self, loop: Node, body: Node) -> None:
        """A loop that only fills and counts; with no turn, as `for (int i = 1; i < argc; i++)`, it changes nothing."""
        start, test = loop.child("initializer"), loop.child("condition")
        if start is not None and start.type == "declaration" and test is not None and test.type == "binary_expression":
            named = dict(self.named)  # its counter is no size
            self.scopes.append({})
            self.execute(start)
            known = self.size(test).value
            self.scopes.pop()
            self.named.clear()
            self.named.update(named)
            if known == 0:
                return
        self.read_fill(loop)
        for cell in self.changed(body):
            cell.value = UNKNOWN

    def one_of_many(
        self, loop: Node, counters: list[HostVariable], begun: list[list[object]], turns: list[list[HostEvent]]
    ) -> list[HostEvent]:
        """One turn of a loop that has too many to launch them all. What counts them is a size, which cases vary.

        begun: what the counters were when each turn began. Raises SyntaxInvalid for turns that differ in more.
        """
        kernels = [[event.launched.kernel for event in turn if event.launched is not None] for turn in turns]
        values = [each[0].value for each in begun if len(each) == 1 and isinstance(each[0], HostNumber)]
        early = [value for value in values[:_EARLY] if isinstance(value, int) and value > 0]
        body = loop.child("body")
        if not early or body is None or any(each != kernels[0] for each in kernels):
            hint = "choose a smaller size with --axis, or keep one turn of the loop in a file of its own"
            raise problem(self.path, loop.row + 1, f"the loop makes {len(turns)} different launches and more", hint)
        cell, self.events = counters[0], []
        value = self.given.get(cell.name, early[-1])
        cell.value = HostNumber.named(self.size_name(cell.name, value), value)
        self.execute(body)
        what = f"the loop launches more than {len(turns)} times; one turn is adopted, in which {cell.name} is a size"
        self.notes.append(f"line {loop.row + 1}: {what}")
        return self.events

    def launching_case(self, cases: Sequence[Node], line: int) -> Node | None:
        """Where nothing tells which case is taken: the one with the kernel that is asked for, else the last."""
        launching = [case for case in cases if self.touches_gpu(case)]
        if launching:
            self.notes.append(f"line {line}: nothing tells which case is taken; --kernel NAME takes another one")
        wanted = [case for case in launching if self.wanted and self.wanted in words_of(case.text)]
        return next(reversed(wanted or launching), None)

    def extracted(self, node: Node) -> None:
        """`file >> width >> height`: sizes that are read from a stream."""
        first: Node | None = node
        while first is not None and first.type == "binary_expression":
            first = first.child("left")
        source, cell = self.find(text_of(first)), self.place(node.child("right"))
        is_stream = first is not None and first.type in ("identifier", "qualified_identifier")
        is_stream = is_stream and (source is None or self.bytes_of(source.type) is None)
        if is_stream and cell is not None and cell.value in (None, UNKNOWN) and self.is_integer(cell.type):
            cell.value = self.guessed(cell.name)
