"""Macros by which a text tells the compiler that judges it from a user's: which compiler, which host, which headers.

NVRTC compiles here and nvcc elsewhere, behind a host compiler's preprocessor that defines hundreds of names of its own
and includes the host's headers. What a name of those decides is not what was judged.
"""

from __future__ import annotations

import re

JUDGES = (
    "__CUDACC_RTC__",
    "__NVCC__",
    "__LINE__",
    "__FILE__",
    "__FILE_NAME__",
    "__BASE_FILE__",
    "__COUNTER__",
    "NDEBUG",
)
_JUDGE = re.compile(
    r"__CUDACC_(?!_\b)\w++|__NV(?:CC|RTC)(?!_DIAG)\w*+|__CUDA(?:RT)?_(?:API_)?VER\w*+|CUDART_VERSION|CUDA_VERSION"
)
_COMPILER = re.compile(r"__(?:GNU|GCC|GXX|clang|EDG|PGI|NVCOMPILER|INTEL(?!LISENSE)|INCLUDE_LEVEL|MINGW)\w*+|_MSC_\w++")
# What gcc defines (`gcc -dM -E`) and NVRTC does not. The second kind has limits and types, which a text may name: they
# tell compilers apart only where it is asked whether they are defined.
_HOST = re.compile(
    r"__(?:(?:gnu_)?linux|unix|x86_64|amd64|i386|aarch64|arm|k8|pic|pie|code_model_\w++)_*+"
    r"|_(?:GLIBCXX|LIBCPP|CCCL|LIBCUDACXX|NVRTC)(?:_\w*+)?+"
)
_LIMIT = re.compile(
    r"__(?:ATOMIC|BYTE|BIGGEST|CHAR|DBL|DEC|DEPRECATED|ELF|EXCEPTIONS|FINITE|FLT|FLOAT|FXSR|GLIBC|HAVE|INT(?!ELLI)|LDBL|LONG|LP64"
    r"|MMX|NO_|OPTIMIZE|ORDER|PIC|PIE|PRAGMA|PTRDIFF|REGISTER|SCHAR|SEG|SHRT|SIG|SIZE|SSE|SSP|STDC|STRICT|UINT|USER_LABEL"
    r"|VERSION|WCHAR|WINT|DRIVER|VECTOR|DEVICE|HOST|BUILTIN|LIBRARY|CHANNEL|SURFACE|TEXTURE|MATH|COMMON|SM_)[A-Z0-9_]*+"
    r"|_(?:GNU|DEFAULT|ATFILE|POSIX|XOPEN|ISOC|LARGEFILE|STDC|LP64|FEATURES|STDIO|STDLIB|STDINT|STRING|MATH|LIMITS)[A-Z0-9_]*+"
)
_ASKS = re.compile(r"__has_(?:builtin|feature|extension|attribute|declspec_attribute|warning)|__is_identifier")
_OF_HOSTS = frozenset(("linux", "unix", "i386"))  # gcc's, where it keeps to no standard
# Reserved names that a conditional may name: the same for all compilers of CUDA C++, or of none but an editor.
_KNOWN = re.compile(
    r"__CUDA_\w++|__CUDACC__|__cplusplus|__cpp_\w++|__HIP\w++|__AMD\w++|__SYCL\w++|__APPLE__|_WIN(?:32|64)|_DEBUG|_OPENMP"
    r"|__INTELLISENSE__|__JETBRAINS_IDE__|__CLION_IDE__|__CDT_PARSER__|__USE_FAST_MATH__|__has_cpp_attribute|__VA_\w++"
    r"|__NVCC_DIAG_PRAGMA_SUPPORT__"
)
_RESERVED = re.compile(r"__[A-Z0-9_]++")  # `__ldg` and `__restrict__` are the language's
_DEFINED = re.compile(r"(?m)^[ \t]*+#[ \t]*+define[ \t]++(\w++)(?:\([^)\n]*+\))?([^\n]*+)")
_QUOTED = re.compile(r"(?<!#)#(?!#)")  # a name that no macro stands for is quoted as it is
_WORD = re.compile(r"[A-Za-z_]\w*+")


def names_judge(word: str) -> bool:
    """Whether a macro says which compiler reads the text, on which host, or where it stands in it."""
    return word in JUDGES or any(names.fullmatch(word) for names in (_JUDGE, _COMPILER, _HOST, _ASKS))


def is_of_limits(word: str) -> bool:
    """Whether a host compiler defines a number of this name, and the judge's perhaps not."""
    return _LIMIT.fullmatch(word) is not None


class Definitions:
    """What a text defines, read once: which of its macros stand for what other compilers may define otherwise."""

    def __init__(self, spliced: str) -> None:
        bodies: dict[str, list[str]] = {}  # of all its definitions, if it has several
        for match in _DEFINED.finditer(spliced):
            bodies.setdefault(match[1], []).append(match[2])
        self._names = frozenset(bodies)
        self.quotes = any(_QUOTED.search(body) for found in bodies.values() for body in found)
        named: dict[str, list[str]] = {}  # of a word: the macros that hold it
        for name, found in bodies.items():
            for word in {word for body in found for word in _WORD.findall(body)}:
                named.setdefault(word, []).append(name)
        self._stand_for: dict[str, str] = {}
        waiting = [word for word in {*named, *bodies} if self._is_other(word)]
        self._stand_for.update((word, word) for word in waiting)
        while waiting:
            word = waiting.pop()
            for name in named.get(word, ()):
                if name not in self._stand_for:
                    self._stand_for[name] = self._stand_for[word]
                    waiting.append(name)

    def other_elsewhere(self, word: str) -> str | None:
        """The name by which a conditional with this word tells compilers apart; None if it does not."""
        return self._stand_for.get(word) or (word if self._is_other(word) else None)

    def _is_other(self, word: str) -> bool:
        if word in _OF_HOSTS or _LIMIT.fullmatch(word) or names_judge(word):
            return True
        return bool(_RESERVED.fullmatch(word)) and word not in self._names and not _KNOWN.fullmatch(word)
