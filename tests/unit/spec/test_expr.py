"""Expressions: what they compute, what they refuse, and that a refusal names its place."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evo.errors import SyntaxInvalid
from evo.spec.expr import parse, parse_list


@pytest.mark.parametrize(
    ("text", "names", "value"),
    [
        ("4 * B * (HQ - 1)", {"B": 2, "HQ": 8}, 56),
        ("ceil_div(SQ, BLOCK_M)", {"SQ": 65, "BLOCK_M": 64}, 2),
        ("min(3, SQ, 7) + max(1, 2)", {"SQ": 5}, 5),
        ("M % 16 == 0 and shared <= chip.shared_per_block", {"M": 32, "shared": 9, "chip.shared_per_block": 9}, 1),
        ("not (A < 2 or A > 4)", {"A": 3}, 1),
        ("1 < A <= 4", {"A": 5}, 0),
        ("2 * N if CAUSAL else 4 * N", {"N": 3, "CAUSAL": 1}, 6),
        ("-7 // 2", {}, -4),
    ],
)
def test_integer_expressions(text, names, value):
    assert parse(text).value(names) == value


def test_real_expressions_take_division_and_sqrt():
    assert parse("1 / sqrt(D)", real=True).value({"D": 64}) == 0.125


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("__import__('os')", "__import__"),
        ("B ** 9", "B ** 9"),
        ("B / 2", "B / 2"),
        ("chip.name.upper", "chip.name.upper"),
        ("os.system", "os.system"),
        ("[1, 2]", "[1, 2]"),
        ("ceil_div(3)", "ceil_div(3)"),
        ("4 * * B", "*"),
        ("(" * 300 + "1" + ")" * 300, "("),
        ("True", "True"),
        ("lambda: 1", "lambda"),
    ],
)
def test_refused_with_file_line_and_token(text, token):
    with pytest.raises(SyntaxInvalid) as caught:
        parse(text, path="k.cu", line=7)
    assert "k.cu:7" in caught.value.message
    assert token in caught.value.message


def test_unknown_name_and_division_by_zero_name_their_place():
    with pytest.raises(SyntaxInvalid, match=r"k\.cu:3: unknown name 'Q'"):
        parse("Q + 1", path="k.cu", line=3).value({"B": 1})
    with pytest.raises(SyntaxInvalid, match=r"k\.cu:3"):
        parse("1 // Z", path="k.cu", line=3).value({"Z": 0})


def test_lists_split_at_top_level_commas_only():
    values = [e.value({"A": 5, "B": 2}) for e in parse_list("ceil_div(A, B), A, max(A, B)", path="k", line=1)]
    assert values == [3, 5, 5]


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_any_text_is_a_number_or_a_clear_refusal(text):
    try:
        parse(text, path="k.cu", line=1)
    except SyntaxInvalid as error:
        assert "k.cu:1" in error.message  # noqa: PT017 (other texts parse, and that is fine)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5 ^ 3", 6),
        ("12 & 10", 8),
        ("12 | 3", 15),
        ("1 << 4", 16),
        ("row >> 2 ^ col >> 4", 2 ^ 3),
        ("7 & 3 == 3", 7 & 3 == 3),
    ],
)
def test_bits_of_layout_formulas(text: str, value: int) -> None:
    assert parse(text).value({"row": 9, "col": 55}) == int(value)


@pytest.mark.parametrize("text", ["1 << 64", "1 >> -1", "x << x"])
def test_shifts_beyond_a_word_are_refused(text: str) -> None:
    with pytest.raises(SyntaxInvalid):
        parse(text).value({"x": 4096})


def test_bits_of_a_real_number_are_refused() -> None:
    with pytest.raises(SyntaxInvalid):
        parse("1.5 ^ 2", real=True).value({})


def test_an_expression_travels_to_other_processes() -> None:
    sent = pickle.loads(pickle.dumps(parse("max(M, 8) // 2 if M > 1 else 0")))
    assert [sent.value({"M": size}) for size in (1, 2, 20)] == [0, 4, 10]
