"""Attention: inputs, the float64 expectation, an fp16 implementation to take the error budget from, and the rivals."""

import math
from collections.abc import Callable, Iterator

import numpy as np

_SHARP = 40.0  # times a unit normal query: logits beyond the range of exp, so the row maximum must be subtracted


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Independent normal q, k and v. In grouped-query cases the last query head is sharp."""
    b, hq, hkv, sq, sk, d = (case[axis] for axis in ("B", "HQ", "HKV", "SQ", "SK", "D"))
    q = rng.standard_normal((b, hq, sq, d), dtype=np.float32)
    if hq > hkv:
        q[:, -1] *= _SHARP
    k = rng.standard_normal((b, hkv, sk, d), dtype=np.float32)
    v = rng.standard_normal((b, hkv, sk, d), dtype=np.float32)
    return {"q": q.astype(np.float16), "k": k.astype(np.float16), "v": v.astype(np.float16)}


def _heads(inputs: dict, case: dict, dtype: type) -> Iterator[tuple[tuple[int, int], np.ndarray, np.ndarray]]:
    """Per query head: its index, unnormalised weights exp(s - max) and its values. One head at a time bounds memory."""
    q, k, v = (inputs[name].astype(dtype) for name in ("q", "k", "v"))
    group = case["HQ"] // case["HKV"]
    hidden = np.arange(case["SK"])[None, :] > np.arange(case["SQ"])[:, None] if case["CAUSAL"] else None
    for b, h in np.ndindex(case["B"], case["HQ"]):
        scores = (q[b, h] @ k[b, h // group].T) * dtype(1 / math.sqrt(case["D"]))
        if hidden is not None:
            scores[hidden] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        yield (b, h), np.exp(scores, out=scores), v[b, h // group]


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:
    """Everything in float64, from the rounded inputs."""
    o = np.empty(inputs["q"].shape, np.float64)
    for head, weights, values in _heads(inputs, case, np.float64):
        o[head] = weights @ values / weights.sum(axis=-1, keepdims=True)
    return {"o": o}


def trusted(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:
    """As good fp16 kernels do it: float32 accumulators, weights rounded to fp16 before they meet the values."""
    o = np.empty(inputs["q"].shape, np.float16)
    for head, weights, values in _heads(inputs, case, np.float32):
        rounded = weights.astype(np.float16).astype(np.float32)
        o[head] = rounded @ values / weights.sum(axis=-1, keepdims=True)
    return {"o": o}


def rivals() -> dict[str, Callable]:
    """torch's attention with one backend forced at a time."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def forced(backend: SDPBackend) -> Callable:
        def call(tensors: dict, case: dict) -> object:
            q, k, v = tensors["q"], tensors["k"], tensors["v"]
            grouped = case["HQ"] != case["HKV"]
            if grouped and backend is SDPBackend.EFFICIENT_ATTENTION:
                # It has no grouped-query mode. The copy is inside the call, so compare it on equal heads only.
                k, v = (t.repeat_interleave(case["HQ"] // case["HKV"], dim=1) for t in (k, v))
                grouped = False
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, is_causal=bool(case["CAUSAL"]), enable_gqa=grouped)

        return call

    return {
        "flash": forced(SDPBackend.FLASH_ATTENTION),
        "cudnn": forced(SDPBackend.CUDNN_ATTENTION),
        "efficient": forced(SDPBackend.EFFICIENT_ATTENTION),
        "math": forced(SDPBackend.MATH),
    }


def literal() -> tuple[dict, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Two query heads on one key head, causal, D = 4 (scale 1/2), worked by hand.

    Query 0 sees key 0 only. Query 1 of head 0 has logits (0, ln 3): weights 1/4 and 3/4. Head 1 has equal logits.
    """
    case = {"B": 1, "HQ": 2, "HKV": 1, "SQ": 2, "SK": 2, "D": 4, "CAUSAL": 1}
    q = [[[[1, 0, 0, 0], [2, 0, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 1]]]]
    k = [[[[0, 1, 0, 0], [math.log(3), 0, 0, 0]]]]
    v = [[[[4, 0, 8, -4], [8, 4, 0, -4]]]]
    o = [[[[4, 0, 8, -4], [7, 3, 2, -4]], [[4, 0, 8, -4], [6, 2, 4, -4]]]]
    given = {name: np.array(values, np.float16) for name, values in (("q", q), ("k", k), ("v", v))}
    return case, given, {"o": np.array(o, np.float64)}
