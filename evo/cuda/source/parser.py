"""The syntax tree as objects of our own: built once, read-only, and free of the parser.

The parser's own nodes are views into memory that it frees and that its bindings have let the garbage collector visit
too late; these are copies, so nothing of the parser outlives `read`.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator, Sequence

from tree_sitter import Language, Parser, TreeCursor

# Recovering from errors takes the parser a time that grows with the square of the text; a kernel takes milliseconds.
TIME_LIMIT_S = 5.0
MOST_NODES = 150_000
UNREAD = "unread"  # the type of a root below which nothing was read
_LIKE_A_CAST = re.compile(rb"\([ \t]*+[A-Za-z_]\w*+[ \t]*+\)\s*+[-+*&(]")  # `(i) + 1`, as macros write it


class Node:
    """One node: its grammar type, its bytes in the text, its children in text order.

    field: its name in the parent's rule (`left`, `body` ...), empty if it has none.
    """

    __slots__ = (
        "children", "data", "end_byte", "field", "is_error", "is_missing", "is_named", "last", "order", "parent",
        "place", "start_byte", "type",
    )  # fmt: skip

    def __init__(self, cursor: TreeCursor, data: bytes, parent: Node | None, order: list[Node]) -> None:
        node = cursor.node
        assert node is not None
        self.data = data
        self.parent = parent
        self.field = cursor.field_name or ""
        self.type = node.type
        self.start_byte, self.end_byte = node.start_byte, node.end_byte
        self.is_named, self.is_error, self.is_missing = node.is_named, node.is_error, node.is_missing
        self.children: list[Node] = []
        self.order, self.place = order, len(order)  # all nodes of the text, each before those below it
        self.last = self.place + 1  # where in `order` what is below this node ends
        order.append(self)

    @property
    def text(self) -> str:
        return self.data[self.start_byte : self.end_byte].decode()

    @property
    def row(self) -> int:
        """The 0-based line that the node starts in. Counted when asked for: few nodes are, of thousands in a text."""
        return self.data.count(b"\n", 0, self.start_byte)

    @property
    def named_children(self) -> list[Node]:
        return [child for child in self.children if child.is_named]

    @property
    def previous(self) -> Node | None:
        """The sibling before this one."""
        siblings = self.parent.children if self.parent is not None else [self]
        at = next(at for at, sibling in enumerate(siblings) if sibling is self)
        return siblings[at - 1] if at else None

    def child(self, field: str) -> Node | None:
        """The first child of that field."""
        for child in self.children:  # the most frequent question of all
            if child.field == field:
                return child
        return None

    def parts(self, *fields: str) -> list[Node]:
        """The first child of each field, of a node that has them all."""
        found = [child for child in map(self.child, fields) if child is not None]
        assert len(found) == len(fields), self.type
        return found

    @property
    def inside(self) -> list[Node]:
        """Its named children but comments."""
        return [child for child in self.named_children if child.type != "comment"]

    def children_of(self, field: str) -> list[Node]:
        return [child for child in self.children if child.field == field]

    def around(self, *types: str) -> Node | None:
        """The nearest node of these types that this one is in."""
        above = self.parent
        while above is not None and above.type not in types:
            above = above.parent
        return above

    def walk(self) -> Iterator[Node]:
        """This node and all below it, in text order."""
        return iter(self.order[self.place : self.last])

    def smallest(self, start: int, end: int) -> Node:
        """The smallest node that holds the bytes from start to end, the first of equals from outside in."""
        node, is_inner = self, True
        while is_inner:
            is_inner = False
            for child in node.children:
                is_empty = child.start_byte == child.end_byte  # what the grammar missed
                if child.end_byte < (max(start, end) if is_empty else max(start + 1, end)):
                    continue
                if child.start_byte <= start:
                    node, is_inner = child, True
                break
        return node


@functools.cache
def _parser() -> Parser:
    import tree_sitter_cuda

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what is to replace the limit ignores text in memory
        return Parser(Language(tree_sitter_cuda.language()), timeout_micros=int(TIME_LIMIT_S * 1e6))


def read(data: bytes) -> Node:
    """The tree of a text. Never fails: text that the grammar does not accept is an error node.

    A text that takes the parser too long, or has too many nodes, is one error node of type UNREAD.
    """
    root = _read(data, data)
    if variables := _taken_for_types(root.order, has_casts=_LIKE_A_CAST.search(data) is not None):
        # The grammar knows no names: `(i) + w * j` is a cast of `+w` to i, times j, and `i < h && j >= 0` the template
        # `i<h && j>` that is assigned to. A number in its place is none.
        shown = bytearray(data)
        for node in variables:
            shown[node.start_byte : node.end_byte] = b"1" * (node.end_byte - node.start_byte)
        root = _read(data, bytes(shown))
        at = {node.start_byte for node in variables}
        for node in root.order:
            if node.type == "number_literal" and node.start_byte in at:
                node.type = "identifier"
    return root


def _taken_for_types(nodes: Sequence[Node], *, has_casts: bool) -> list[Node]:
    """What stands in a cast as its type or in front of a template's arguments, but is declared as a variable and
    nowhere as a type.
    """
    casts = [node for node in nodes if node.type == "cast_expression"] if has_casts else []
    kinds = [kind for cast in casts if (kind := cast.child("type")) is not None and not kind.child("declarator")]
    names = [kind.named_children[0] for kind in kinds if len(kind.named_children) == 1]
    names = [name for name in names if name.type == "type_identifier"]
    names += [name for node in nodes if node.type == "template_function" and (name := node.child("name")) is not None]
    if not names:
        return []
    declared = [node for node in nodes if node.type == "identifier" and node.field == "declarator"]
    variables = {node.text for node in declared if node.parent is None or node.parent.type != "function_declarator"}
    types = {node.text for node in nodes if node.type == "type_identifier" and node.field == "name"}
    return [name for name in names if name.text in variables - types]


def _read(data: bytes, shown: bytes) -> Node:
    """The tree of what is shown to the parser, which has the length of the text that its nodes are of."""
    parser = _parser()
    try:
        cursor = parser.parse(shown).walk()
    except ValueError:  # the limit
        parser.reset()
        return _unread(data)
    order: list[Node] = []
    root = current = Node(cursor, data, None, order)
    if not cursor.goto_first_child():
        return root
    while len(order) < MOST_NODES:
        node = Node(cursor, data, current, order)
        current.children.append(node)
        if cursor.goto_first_child():
            current = node
            continue
        while not cursor.goto_next_sibling():
            current.last = len(order)
            if not cursor.goto_parent() or current.parent is None:
                return root
            current = current.parent
    return _unread(data)


def is_accepted(data: bytes) -> bool:
    """Whether the grammar accepts a text as it stands. Much quicker than `read`, since no node is copied."""
    parser = _parser()
    try:
        tree = parser.parse(data)
    except ValueError:  # the limit
        parser.reset()
        return False
    root = tree.root_node
    return not root.has_error and root.descendant_count < MOST_NODES


def _unread(data: bytes) -> Node:
    root = Node(Parser(_parser().language).parse(b"").walk(), data, None, [])
    root.type, root.end_byte, root.is_error = UNREAD, len(data), True
    return root
