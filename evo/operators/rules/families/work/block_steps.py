"""Statements of a kernel carried out by all threads of a block, one statement after the other."""

from __future__ import annotations

from collections.abc import Sequence

from evo.analysis.access.carried_out import CarriedOut, Storage, Unfollowed
from evo.cuda.source.parser import Node
from evo.operators.rules.rewriting import LEAVES

BARRIER = "__syncthreads();"
LOOPS = ("for_statement", "while_statement")


def declare(lane: CarriedOut, node: Node) -> None:
    """A declaration; nothing is known of a variable whose value is not followed."""
    try:
        lane.run(node)
    except Unfollowed:
        for name in declared_in(node):
            lane.scopes[-1].setdefault(name, Storage([]))


def declared_in(node: Node) -> list[str]:
    found = []
    for declarator in node.children_of("declarator"):
        name = declarator.child("declarator") if declarator.type == "init_declarator" else declarator
        while name is not None and name.type != "identifier":
            name = name.child("declarator")
        found += [name.text] if name is not None else []
    return found


def together(lanes: Sequence[CarriedOut], node: Node) -> None:
    """A statement by all threads, one after the other between barriers, which all of them reach. Raises Unfollowed."""
    if node.text == BARRIER:
        return
    if BARRIER not in node.text:
        for lane in lanes:
            lane.run(node)
    elif node.type == "compound_statement":
        for lane in lanes:
            lane.scopes.append({})
        for inner in node.inside:
            together(lanes, inner)
        for lane in lanes:
            lane.scopes.pop()
    elif node.type in LOOPS:
        _loop(lanes, node)
    else:
        raise Unfollowed("a barrier that some threads reach")


def _loop(lanes: Sequence[CarriedOut], node: Node) -> None:
    start, condition, body, update = map(node.child, ("initializer", "condition", "body", "update"))
    if condition is None or body is None or LEAVES.search(node.text):
        raise Unfollowed("a loop that ends within")
    for lane in lanes:
        lane.scopes.append({})
        if start is not None:
            (lane.run if start.type == "declaration" else lane.value)(start)
    while len(holding := {lane.holds(condition) for lane in lanes}) == 1 and True in holding:
        together(lanes, body)
        for lane in lanes:
            if update is not None:
                lane.value(update)
    if len(holding) > 1:
        raise Unfollowed("a loop that threads leave one by one")
    for lane in lanes:
        lane.scopes.pop()
