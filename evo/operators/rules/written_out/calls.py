"""Functions of the file that kernels call, written out where they are called, loops and walking parameters with them.

What a function is given is worked out once, into a variable, unless it is a name or a number. Functions that keep
shared memory or return from within loops stay calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from evo.cuda.source import Call, Edit, Function, Source, Span, Statement
from evo.operators.rules.plain_view import type_arguments
from evo.operators.rules.rewriting import WORD, balanced, indent_of, listed
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.written_out.short_calls import inlined

_STAYS = re.compile(r"__shared__|\basm\b|\bstatic\b|\bgoto\b|\[[&=]?\]\s*\(|^\s*#\s*(?!pragma)", re.MULTILINE)
_LAMBDA = re.compile(r"\[[&=]?\]\s*\([^(){}]*\)\s*(?:->\s*\w+\s*)?\{.*\}", re.DOTALL)
_NUMBER = re.compile(r"-?\d[\w.]*")
_PLACE = re.compile(r"\w+(?:\[\w+\])?(?:\.\w+)?")
_TARGET = re.compile(r"\w++\s*+\[[\w\s+*]*+\]\s*+=\s*+;")
_OFFSET = re.compile(r"(\w++)\s*+\+\s*+([\w\s+*]++)")
_CHANGES = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|\batomic\w*")
_STORES = re.compile(r"\][^;{}=!<>]{0,3}=(?!=)|[;{})]\s*\*\s*\(?\w+[^;{}()=!<>]{0,20}=(?!=)|\batomic\w*\s*\(")
_MOVED = r"(?:\+\+|--)\s*{0}\b|\b{0}\s*(?:\+\+|--)|(?<![*\w])\s*\b{0}\s*[-+]?=(?!=)"
_RETURN = re.compile(r"\breturn\b")


class _Stays(Exception):
    """A call that cannot be written out."""


def called_out(ctx: RuleContext) -> list[Edit]:
    """The edits that write out calls of kernels that are expressions or one statement; else one other call."""
    source = ctx.source
    if made := inlined(source):
        return made
    own = {f.name: f for f in source.functions if not f.is_kernel}
    kernels = {f.name: f for f in source.functions if f.is_kernel}
    for call in source.calls:
        name, kernel = call.name.split("<")[0].strip(), kernels.get(call.function)
        if kernel is None or name not in own or sum(f.name == name for f in source.functions) > 1:
            continue
        try:
            return list(_Written(source, kernel, call, own[name]).edits())
        except _Stays:
            continue
    return []


@dataclass(slots=True)
class _Written:
    """One call. names: what stands for the function's names; lines: variables that it is given.

    meant: the types that its template's parameters stand for. taken: names of the kernel, so that new ones are others.
    """

    source: Source
    kernel: Function
    call: Call
    called: Function
    names: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    meant: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def edits(self) -> Iterator[Edit]:
        """Raises _Stays."""
        source, call = self.source, self.call
        body = source.slice(self.called.body)
        walked = [re.search(rf"\b{param.name}\s*\[", body) is not None for param in self.called.params]
        texts = [source.slice(span).strip() for span in call.arguments]
        given = [self._pointer(text, is_walked) for text, is_walked in zip(texts, walked, strict=False)]
        types = listed(call.name.partition("<")[2].removesuffix(">"))
        if _STAYS.search(body) or re.search(rf"\b{self.called.name}\b", body) or len(given) != len(self.called.params):
            raise _Stays
        kinds = [self._kind_of(text) for text in given]
        meant = type_arguments(source, self.called, types, kinds)
        if meant is None or meant.keys() & {word for text in given for word in WORD.findall(text)}:
            raise _Stays
        self.meant = meant
        self.taken = set(WORD.findall(source.slice(self.kernel.span))) | set(given)
        whole, is_alone, target = self._statement()
        self._bind(given, self._itself(whole, given))
        for name in dict.fromkeys(source.declared(self.called.body)):
            if name in self.names:
                raise _Stays
            self.names[name] = self._free(name)
        is_void = self.called.return_type.split()[-1:] == ["void"]
        tops = source.statements(self.called)
        result, text = self._returned(tops, is_void, target)
        lines = [*self.lines, *(line for line in _outwards(text).splitlines() if line.strip())]
        before, behind = source.slice(Span(whole.start, call.span.start)), source.slice(Span(call.span.end, whole.end))
        self._refuse_what_moves(before + behind, "\n".join(lines))
        if result and not is_alone and source.is_conditional(call.span, whole):
            raise _Stays
        is_alone |= re.fullmatch(rf"{re.escape(result)}\s*=\s*", before) is not None
        indent = indent_of(source, whole.start)
        made = "\n".join(lines if is_alone else [*lines, before + result + behind])
        made = made if not source.is_bare(whole) else f"{{\n{made}\n}}"
        yield Edit(whole, made.replace("\n", f"\n{indent}").strip())

    def _refuse_what_moves(self, beside: str, written: str) -> None:
        """Raises _Stays if what stands beside the call could be another value behind the function than in front."""
        if re.fullmatch(r"(?:[\w\s*:]*?\w+\s*(?:[-+*/]?=)?)?\s*;", beside):
            return
        if _TARGET.fullmatch(beside) and not any("&" in param.type for param in self.called.params):
            return  # no store moves the element
        if _STORES.search(written) or len(_CHANGES.findall(beside)) > 1:
            raise _Stays
        if self.source.changed_in(self.called.body) & {p.name for p in self.called.params if "&" in p.type}:
            raise _Stays

    def _statement(self) -> tuple[Span, bool, str]:
        """The statement of the call, whether it is all of it, and the type of what it only sets to the value."""
        source = self.source
        whole = source.enclosing_statement(self.call.span)
        text, said = source.slice(whole), source.slice(self.call.span)
        if (
            not self.kernel.body.holds(whole)
            or not text.endswith(";")
            or re.match(r"(?:return|for|while|do|if)\b", text)
        ):
            raise _Stays
        if source.is_bare(whole) and not _is_plain(source, whole):
            raise _Stays  # in the header of a loop
        match = re.fullmatch(r"(?P<kind>(?:[\w:]+\s+)*)(?P<name>\w+)\s*=\s*", text.partition(said)[0])
        is_value = match is not None and text.partition(said)[2].strip() == ";"
        kind = source.element_type(self.kernel.name, match["name"]) if match is not None and is_value else None
        return whole, text == f"{said};", kind or ""

    def _kind_of(self, text: str) -> str | None:
        """The type of an argument that is a name or a lambda, as `type_arguments` asks for it."""
        if _LAMBDA.fullmatch(text):
            return "auto"
        if not WORD.fullmatch(text):
            return None
        param = next((p for p in self.kernel.params if p.name == text), None)
        kind = self.source.element_type(self.kernel.name, text)
        return f"{kind} *" if kind is not None and (param is None or param.is_pointer) else kind

    def _pointer(self, text: str, is_walked: bool) -> str:
        """`&x[i * n]` of a parameter of the kernel as `x + (i * n)`; other arguments as they are.

        is_walked: whether the function takes elements of it by their number.
        """
        match = re.fullmatch(r"&(\w+)\[(.+)\]", text)
        pointers = {param.name for param in self.kernel.params if param.is_pointer}
        is_sum = match is not None and match[1] in pointers and balanced(match[2])
        is_sum &= is_walked or _PLACE.fullmatch(text[1:]) is None
        return f"{match[1]} + ({match[2]})" if match is not None and is_sum else text

    def _free(self, name: str) -> str:
        found, number = name, 2
        while found in self.taken:
            found, number = f"{name}_{number}", number + 1
        self.taken.add(found)
        return found

    def _itself(self, whole: Span, given: Sequence[str]) -> str:
        """Of `s = f(s, x);` that returns what it was given and changed, the name; else nothing."""
        tops = self.source.statements(self.called)
        said = re.fullmatch(r"return\s+(\w+)\s*;", self.source.slice(tops[-1].span)) if tops else None
        name = next((p.name for p in self.called.params if said is not None and p.name == said[1]), "")
        at = [param.name for param in self.called.params].index(name) if name else 0
        is_back = bool(name) and re.match(rf"{given[at]}\s*=\s*\w+\s*[<(]", self.source.slice(whole)) is not None
        is_once = is_back and [text for text in given if given[at] in WORD.findall(text)] == [given[at]]
        return name if is_once and len(_RETURN.findall(self.source.slice(self.called.body))) == 1 else ""

    def _bind(self, given: Sequence[str], itself: str) -> None:
        """What stands for each parameter; itself: the one that its own argument may stand for. Raises _Stays."""
        changed = self._changed()
        handed = [text for p, text in zip(self.called.params, given, strict=True) if "&" in p.type or text[:1] == "&"]
        for param, text, span in zip(self.called.params, given, self.call.arguments, strict=True):
            others = [each for each in handed if each is not text]
            if _LAMBDA.fullmatch(text):
                if param.name in changed:
                    raise _Stays
                name = self.names[param.name] = self._free(param.name)
                self.lines.append(f"auto {name} = {text};")
                continue
            if "&" in param.type or text.startswith("&"):
                place = text.removeprefix("&").strip()
                is_shared = set(WORD.findall(place)) & {w for other in others for w in WORD.findall(other)}
                if not _PLACE.fullmatch(place) or is_shared or (text[:1] == "&" and param.name in changed):
                    raise _Stays
                self.names[param.name] = place if "&" in param.type else f"(&{place})"
                continue
            if _CHANGES.search(text) or "{" in text or "[&" in text or "[=" in text:
                raise _Stays
            kind = self._typed(param.type)
            is_same = _NUMBER.fullmatch(text) is not None and "*" not in kind and self._is_number(kind, text)
            if WORD.fullmatch(text) and not {text} & {w for other in others for w in WORD.findall(other)}:
                is_same |= self._is_same(text, kind, span)
            if is_same and (param.name not in changed or param.name == itself):
                self.names[param.name] = text
                continue
            if kind.endswith("]"):
                raise _Stays
            if "*" in kind and (offset := _OFFSET.fullmatch(text)) and self._is_element(param.name):
                self.names[param.name] = f"(&{offset[1]}[{offset[2]}])"
                continue
            if param.name in changed:
                kind = re.sub(r"\bconst\s*$", "", kind) if "*" in kind else re.sub(r"\bconst\b\s*", "", kind)
            name = self._free(param.name)
            self.names[param.name] = name
            self.lines.append(f"{kind} {name} = {text};")

    def _is_element(self, name: str) -> bool:
        """Whether a function has no use of a pointer but the element that it points to."""
        body = self.source.slice(self.called.body)
        uses = re.findall(rf"(\*\s*)?\b{name}\b(?!\s*(?:\[|\+\+|--))", body)
        return len(uses) == len(re.findall(rf"\b{name}\b", body)) and all(uses)

    def _changed(self) -> set[str]:
        """Parameters that are something else later on; a pointer through which the function only writes is not."""
        source, body = self.source, self.source.slice(self.called.body)
        changed = set(source.changed_in(self.called.body))
        by_reference = [f.name for f in source.functions if any("&" in param.type for param in f.params)]
        if any(re.search(rf"\b{name}\b", body) for name in by_reference):
            return changed
        pointers = {param.name for param in self.called.params if "*" in param.type}
        return {name for name in changed if name not in pointers or re.search(_MOVED.format(name), body)}

    def _is_number(self, kind: str, text: str) -> bool:
        is_real = re.search(r"[.fF]", text) is not None and not text.startswith("0x")
        word = kind.replace("const", "").strip()
        return word == ("float" if text[-1] in "fF" else "double") if is_real else word == "int"

    def _typed(self, text: str) -> str:
        """A text of the function with the types that its template's parameters stand for."""
        return WORD.sub(lambda word: self.meant.get(word[0], word[0]), text)

    def _is_same(self, text: str, kind: str, span: Span) -> bool:
        """Whether a name of the kernel is of the parameter's type."""
        plain = re.sub(r"\bconst\b|\[\w*\]|\*", " ", kind).split()
        known = self.source.element_type(self.kernel.name, text)
        if "*" not in kind and "[" not in kind:
            known = known or self.source.type_of(self.kernel.name, span)
            if any(p.name == text and p.is_pointer for p in self.kernel.params):
                return False
        return known is not None and known.split() == plain

    def _returned(self, tops: Sequence[Statement], is_void: bool, target: str) -> tuple[str, str]:
        """What the call's value is, and the statements in front of it. Raises _Stays."""
        source = self.source
        early = any(_RETURN.search(source.slice(s.span)) for s in tops[:-1]) or (
            bool(tops) and tops[-1].kind != "return" and _RETURN.search(source.slice(tops[-1].span)) is not None
        )
        if is_void:
            return "", self._plain(self._lines(tops, ""))
        if not tops or (tops[-1].kind != "return" and not early):
            raise _Stays
        kind = self._typed(self.called.return_type)
        if early:
            name = self._free("value")
            return name, f"{kind} {name};\n{self._plain(self._lines(tops, name))}"
        last = self._plain(self._value(tops[-1]))
        text = self._plain(self._text(tops[:-1]))
        if target == kind or (WORD.fullmatch(last) and self._has_type(last, kind)):
            return last, text
        name = self._free("value")
        return name, f"{text}\n{kind} {name} = {last};"

    def _has_type(self, name: str, kind: str) -> bool:
        own = next((own for own, now in self.names.items() if now == name), name)
        return self.source.element_type(self.called.name, own) == kind

    def _lines(self, tops: Sequence[Statement], result: str) -> str:
        """Statements of which tests return early. Raises _Stays."""
        source = self.source
        for at, top in enumerate(tops):
            if top.kind == "return":
                before = self._text(tops[:at])
                return f"{before}\n{result} = {self._value(top)};" if result else before
            if not _RETURN.search(source.slice(top.span)):
                continue
            if top.kind != "if" or top.condition is None:
                raise _Stays
            test = self._named(top.condition)
            then, rest = self._lines(top.body, result), self._lines([*top.alternative, *tops[at + 1 :]], result)
            others = "\n".join(source.slice(each.span) for each in top.alternative)
            if not top.body or top.body[-1].kind != "return" or _RETURN.search(others):
                raise _Stays
            before = self._text(tops[:at])
            return (
                f"{before}\nif ({test}) {{\n{then}\n}} else {{\n{rest}\n}}"
                if then.strip()
                else (f"{before}\nif (!({test})) {{\n{rest}\n}}")
            )
        return self._text(tops)

    def _text(self, statements: Sequence[Statement]) -> str:
        """Statements with what stands between them."""
        if not statements:
            return ""
        first = self.called.body.start + 1 if statements[0] == self.source.statements(self.called)[0] else None
        return self._named(Span(first or statements[0].span.start, statements[-1].span.end))

    def _named(self, span: Span) -> str:
        return self._typed(self.source.renamed(span, self.names))

    def _value(self, statement: Statement) -> str:
        """What a statement returns. Raises _Stays."""
        match = re.fullmatch(r"return\s*(.*?)\s*;", self._named(statement.span), re.DOTALL)
        if match is None or not match[1] or match[1].startswith("{"):
            raise _Stays
        return match[1]

    def _plain(self, text: str) -> str:
        """The text without `*(&x)`. Raises _Stays if an address is used otherwise."""
        text = re.sub(r"\*\s*\(&([^()]*)\)|\(&([^()]*)\)\s*\[\s*0\s*\]", lambda match: match[1] or match[2], text)
        text = re.sub(r"\(&([^()]*)\)\s*->", r"\1.", text)
        text = re.sub(r"\((\w+)\)(?=\s*[-+*/]?=)", r"\1", text)
        if "(&" in text and any(f"(&{name}" in text for name in self._handed()):
            raise _Stays
        return text

    def _handed(self) -> set[str]:
        return {text[2:-1] for text in self.names.values() if text.startswith("(&")}


def _outwards(text: str) -> str:
    """Lines of a function's body as far out as the first of them, which may have lost its blanks."""
    depths = [len(line) - len(line.lstrip()) for line in text.splitlines() if line.strip() and line[:1] == " "]
    return re.sub(rf"(?m)^ {{{min(depths)}}}", "", text) if depths else text


def _is_plain(source: Source, whole: Span) -> bool:
    """Whether a bare statement is the body of a loop or a test, rather than part of a header."""
    before = source.data[: whole.start].rstrip()
    return before.endswith((b")", b"else", b"do"))
