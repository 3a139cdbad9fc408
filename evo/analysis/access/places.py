"""Reading and writing places: variables, and memory, where every read and write becomes an access of the form."""

from __future__ import annotations

from evo.analysis.access.c_types import AUTO, FLOAT, INT, OTHER, CType, array_of
from evo.analysis.access.comparisons import ALWAYS, NEVER, Condition
from evo.analysis.access.data_values import parts_of
from evo.analysis.access.delinearise import subscripts
from evo.analysis.access.form import Access, Array, Data
from evo.analysis.access.preprocess import Expanded
from evo.analysis.access.simplify import choose, split
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import ZERO, Symbol, Term
from evo.analysis.access.thread_arrays import TableStore, found_value, with_entry
from evo.analysis.access.touches import AddressReader
from evo.analysis.access.values import (
    ArrayPlace,
    Binding,
    Cell,
    Number,
    Part,
    Place,
    Pointer,
    Real,
    StructValue,
    Value,
)
from evo.cuda.source import Span
from evo.cuda.source.parser import Node


class LoadsAndStores(AddressReader):
    """Loads and stores.

    homes: variables whose address was taken, by the symbol of that address. tables: what a thread's own arrays of
    integers hold.
    """

    def __init__(self, text: Expanded, data: bytes, bounds: Bounds) -> None:
        super().__init__(text, data, bounds)
        self.homes: dict[Symbol, Cell] = {}
        self.tables: dict[Symbol, list[TableStore]] = {}
        self.stored: list[Symbol] = []  # arrays with a table, in the order of their stores

    def array(
        self, name: str, space: str, kind: CType, node: Node | None, *, shape: tuple[Term, ...] = (), role: str = ""
    ) -> ArrayPlace:
        """A new array; the place that is all of it. Read again, the same declaration is the same array."""
        span = self.span(node) if node is not None else None
        for known in self.arrays.values() if span is not None else ():
            if known.span == span and known.name == name and space == "shared":
                return ArrayPlace(Term.of(known.address), kind)
        address = Symbol(name, "address", self.fresh())
        leaf = kind.leaf
        dims = shape or tuple(Term.number(count or 0) for count in kind.dims)
        self.arrays[address] = Array(
            name=name, space=space, element=leaf.name, element_bytes=leaf.size or 1, shape=dims, role=role,
            address=address, is_dynamic=kind.kind == "array" and kind.count is None,
            loops=tuple(part for part in self.context if isinstance(part, Symbol)),
            span=span if span is not None else Span(0, 0),
        )  # fmt: skip
        self.bounds.declare(address, ZERO)
        return ArrayPlace(Term.of(address), kind)

    def storage(self, name: str, kind: CType, node: Node) -> Binding:
        """What a local variable of a type is kept in: arrays are memory of their own, records have a cell per field."""
        if kind.kind == "array":
            return self.array(name, "local", kind, node)
        if kind.kind in ("struct", "vector") and kind.fields:
            fields = {field: self.storage(f"{name}.{field}", inner, node) for field, inner, _ in kind.fields}
            return Cell(name, kind, StructValue(kind, fields), self.frame)
        return Cell(name, kind, None, self.frame)

    # Variables and memory alike.

    def fetch(self, place: Place, node: Node, route: str = "plain") -> Value:
        """The value at a place."""
        if isinstance(place, Cell):
            value = self.read(place)
            return self._settled(value) if value is not None else self.unset(place, node)
        if isinstance(place, ArrayPlace):
            return self.load(place, node, route)
        if isinstance(place, Part):
            whole = self.data_of(self.read(place.cell))
            return self.of_data(Data("part", (whole,), place.index), place.type, node)
        left = self.fetch(place.left, node)
        right = self.fetch(place.right, node)
        return self.merged(place.condition, left, right, node)

    def _settled(self, value: Value) -> Value:
        """What was chosen by a condition that is known here, as a sum under a guard that is written again."""
        while isinstance(value, Real) and value.data.op == "select" and isinstance(value.data.detail, Condition):
            known = self.bounds.decided(value.data.detail)
            if known not in (ALWAYS, NEVER):
                break
            value = Real(value.data.args[known == NEVER], value.type)
        return value

    def put(self, place: Place, value: Value, node: Node, route: str = "plain") -> None:
        """Write a value to a place."""
        if isinstance(place, Cell):
            self.write(place, self.converted(value, place.type, node))
        elif isinstance(place, ArrayPlace):
            self.store(place, value, node, route)
        elif isinstance(place, Part):
            both = (self.data_of(self.read(place.cell)), self.data_of(value))
            self.write(place.cell, Real(Data("pack", both), place.cell.type))
        else:
            for side, condition in ((place.left, place.condition), (place.right, place.condition.negated())):
                old = self.fetch(side, node) if isinstance(side, Cell) else None
                if old is not None:
                    self.put(side, self.merged(condition, value, old, node), node)
                else:
                    with self.under(condition):
                        self.put(side, value, node)

    def unset(self, cell: Cell, node: Node) -> Value:
        """A variable that was declared without a value."""
        if cell.type.kind in ("int", "bool"):
            return Number(self.unknown(node, f"{cell.name} has no value yet"), cell.type)
        return Real(Data("unknown"), cell.type if cell.type.kind != "auto" else FLOAT)

    def of_data(self, data: Data, kind: CType, node: Node, reason: str = "computed from data") -> Value:
        """A computed value as one of that type."""
        if kind.kind in ("int", "bool"):
            term = self.unknown(node, reason, data)
            self._narrow(term, kind)
            return Number(term, kind)
        if kind.kind in ("struct", "vector"):
            return self._unpacked(data, kind, node)
        if kind.kind == "pointer":
            return Pointer(self.unknown(node, "a pointer that was loaded", data), kind.of or OTHER)
        return Real(data, kind)

    def _narrow(self, term: Term, kind: CType) -> None:
        symbol = term.atom
        if isinstance(symbol, Symbol):
            if not kind.is_signed:
                self.bounds.declare(symbol, ZERO)
            if kind.size < 4:
                top = (1 << 8 * kind.size - kind.is_signed) - 1 if kind.kind == "int" else 1
                self.bounds.declare(symbol, Term.number(-top - 1 if kind.is_signed else 0), Term.number(top))

    def _unpacked(self, data: Data, kind: CType, node: Node) -> StructValue:
        fields: dict[str, Binding] = {}
        for name, inner, _ in kind.fields:
            part = Data("part", (data,), name)
            held: Value = Real(part, inner) if inner.kind == "array" else self.of_data(part, inner, node)
            fields[name] = Cell(name, inner, held, self.frame)
        return StructValue(kind, fields, data)

    def merged(self, condition: Condition, left: Value | None, right: Value | None, node: Node) -> Value:
        """condition ? left : right, of any kind."""
        if left is right and left is not None:
            return left
        if isinstance(left, Real) and isinstance(right, Real) and left.data is right.data:
            return left
        if isinstance(left, Number) and isinstance(right, Number):
            kind = left.type if left.type.size >= right.type.size else right.type
            return Number(choose(self.bounds, condition, left.term, right.term), kind)
        if isinstance(left, Pointer | Number) and isinstance(right, Pointer | Number):
            of = left.of if isinstance(left, Pointer) else right.of if isinstance(right, Pointer) else OTHER
            return Pointer(choose(self.bounds, condition, left.term, right.term), of)
        if (
            isinstance(left, StructValue)
            and isinstance(right, StructValue)
            and left.fields.keys() == right.fields.keys()
        ):
            fields: dict[str, Binding] = {}
            for name, binding in left.fields.items():
                beside = right.fields[name]
                if isinstance(binding, Cell) and isinstance(beside, Cell):
                    held = self.merged(condition, self.read(binding), self.read(beside), node)
                    fields[name] = Cell(name, binding.type, held, self.frame)
                else:
                    fields[name] = binding
            return StructValue(left.type, fields)
        if left is None or right is None:
            known = left if left is not None else right
            return known if known is not None else Real(Data("unknown"), OTHER)
        if not isinstance(left, Real | Number | StructValue) or not isinstance(right, Real | Number | StructValue):
            return left
        kind = left.type if isinstance(left, Real) else right.type
        return Real(Data("select", (self.data_of(left), self.data_of(right)), condition), kind)

    def converted(self, value: Value, kind: CType, node: Node) -> Value:
        """The value as a variable of that type holds it."""
        if kind.kind in ("auto", "other"):
            return value
        if kind.kind in ("int", "bool"):
            if isinstance(value, Number):
                if kind.kind == "bool" and value.type.kind != "bool":
                    return value
                return Number(value.term, kind, value.condition)
            if isinstance(value, Real):
                # What no memory is read for follows from indices and sizes, by arithmetic that is not followed.
                is_read = any(part.op in ("read", "carried", "result") for part in parts_of(value.data))
                why = "converted from data" if is_read else "which is computed in floating point"
                return self.of_data(Data("convert", (value.data,), kind.name), kind, node, why)
            if isinstance(value, Pointer):
                return Number(value.term, kind)
        if kind.kind == "real" and isinstance(value, Number):
            return Real(self.data_of(value), kind)
        if kind.kind == "real" and isinstance(value, Real):
            return value if value.type == kind else Real(Data("convert", (value.data,), kind.name), kind)
        if kind.kind == "pointer" and isinstance(value, Pointer | Number):
            is_open = kind.of is None or kind.of.kind in ("auto", "other")
            return Pointer(value.term, value.of if is_open and isinstance(value, Pointer) else kind.of or OTHER)
        if kind.kind in ("struct", "vector") and isinstance(value, Real | Number):
            return self._unpacked(self.data_of(value), kind, node)
        return value

    # Memory.

    def load(self, place: ArrayPlace, node: Node, route: str = "plain") -> Value:
        kind = place.type
        if kind.kind == "array":
            return Pointer(place.term, kind.of or OTHER)
        home = self.home_at(place.term)
        if home is not None:
            return self._of_home(home, place, node)
        known = self._forwarded(place, kind)
        if known is not None:
            self.touch(place, "read", node, route=route)
            return known
        accesses = self.touch(place, "read", node, route=route)
        reads = tuple(Data("read", detail=access.number) for access in accesses)
        data = reads[0] if len(reads) == 1 else Data("pack", reads)
        if kind.kind in ("int", "bool"):
            return self._loaded_integer(place, kind, data, accesses, node)
        return self.of_data(data, kind, node, "loaded from memory")

    def _loaded_integer(
        self, place: ArrayPlace, kind: CType, data: Data, accesses: tuple[Access, ...], node: Node
    ) -> Number:
        """What is read twice from the same element of an input is the same number."""
        array = accesses[0].array if accesses else None
        key = place.term.key if array is not None and array.role == "in" else ""
        if key and key in self.loaded:
            return Number(Term.of(self.loaded[key]), kind)
        where = "loaded from memory" if array is None else f"loaded from {array.name}"
        term = self.unknown(node, where, data, accesses[0].number if accesses else None)
        self._narrow(term, kind)
        if key and isinstance(term.atom, Symbol):
            self.loaded[key] = term.atom
            self.loaded_from[term.atom] = place.term
        return Number(term, kind)

    def store(self, place: ArrayPlace, value: Value, node: Node, route: str = "plain") -> None:
        home = self.home_at(place.term)
        if home is not None:
            is_whole = place.type.size >= home.type.size
            data = self.data_of(value)
            if not is_whole:
                data = Data("pack", (self.data_of(self.fetch(home, node)), data))
            given = value if is_whole else self.of_data(data, home.type, node)
            self.write(home, self.converted(given, home.type, node))
            return
        self.touch(place, "write", node, self.data_of(value), route)
        for array, offset, _ in self._targets(place.term):
            if array is not None and array.space == "local":
                at = self._table_place(array, offset, place.type)
                if at and isinstance(value, Number | Pointer):
                    entry = TableStore(at, value, tuple(self.context))
                    self.tables[array.address] = with_entry(self.tables.get(array.address, []), entry)
                else:
                    self.tables.pop(array.address, None)
                self.stored.append(array.address)

    def _table_place(self, array: Array, offset: Term, kind: CType) -> tuple[Term, ...]:
        """Subscripts in a thread's own array of numbers; empty if it is no element of it."""
        if kind.kind not in ("int", "bool", "pointer") or kind.size != array.element_bytes:
            return ()
        index, rest = split(offset, Term.number(array.element_bytes))
        if rest.parts or not array.shape:
            return ()
        return (index,) if len(array.shape) == 1 else subscripts(index, array.shape, self.bounds)

    def _forwarded(self, place: ArrayPlace, kind: CType) -> Value | None:
        """The integer or pointer that the thread itself has put there."""
        if kind.kind not in ("int", "bool", "pointer"):
            return None
        for array, offset, _ in self._targets(place.term):
            if array is not None and array.address in self.tables:
                at = self._table_place(array, offset, kind)
                return found_value(self.tables[array.address], at, self.bounds, self.context) if at else None
        return None

    def deref(self, value: Value, node: Node) -> ArrayPlace | Cell:
        """What a pointer points to."""
        if isinstance(value, Pointer):
            return ArrayPlace(value.term, value.of)
        if isinstance(value, Number):
            return ArrayPlace(value.term, INT)
        if isinstance(value, StructValue):
            return Cell("this", value.type, value, self.frame)
        span = self.unknown(node, "this is no pointer that could be followed")
        return ArrayPlace(span, OTHER)

    def address_of(self, place: Place, node: Node) -> Pointer:
        """`&place`. A variable whose address is taken becomes an array of one element from here on."""
        if isinstance(place, ArrayPlace):
            if place.type.kind == "array":
                return Pointer(place.term, place.type)
            return Pointer(place.term, place.type)
        if isinstance(place, Cell):
            home = self.home_of(place, node)
            return Pointer(home.term, place.type if place.type.kind != "auto" else OTHER)
        return Pointer(self.unknown(node, "the address of a part of a value"), AUTO)

    def home_of(self, cell: Cell, node: Node) -> ArrayPlace:
        """Memory that stands for a variable: what is read there is the variable."""
        for address, kept in self.homes.items():
            if kept is cell:
                return ArrayPlace(Term.of(address), cell.type)
        kind = cell.type if cell.type.size else INT
        place = self.array(cell.name, "local", array_of(kind, 1), node)
        (address,) = place.term.symbols()
        self.homes[address] = cell
        return place

    def home_at(self, term: Term) -> Cell | None:
        """The variable that an address lies in, if it is one."""
        return next((self.homes[s] for s in term.symbols() if s in self.homes), None)

    def _of_home(self, cell: Cell, place: ArrayPlace, node: Node) -> Value:
        """A variable read through its address, maybe as another type: `*(const unsigned*)&pair`."""
        value = self.fetch(cell, node)
        if place.type in (cell.type, OTHER) or (isinstance(value, Number) and place.type.kind == "int"):
            return value
        (address,) = (s for s in place.term.symbols() if s in self.homes)
        part = Data("part", (self.data_of(value),), place.term - Term.of(address))
        return self.of_data(part, place.type, node, "the bits of another value")
