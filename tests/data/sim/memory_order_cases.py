"""The cases of kernels about what orders memory, and what does not."""

from __future__ import annotations

import numpy as np
from kernel_cases import I32, Array, Case, whole, zeros


def memory_orders() -> dict[str, Case]:
    """Kernels `k(x, t, y, f)` of four blocks of 256 threads: what orders memory, and what does not."""
    x = whole("orders", 1024)
    at = np.arange(1024)
    args = [x, zeros(x), zeros(x), np.zeros(64, I32)]
    counts = zeros(x)
    counts[0] = np.count_nonzero(x & 1)
    counts[1:8] = 4 * np.bincount(np.arange(256) % 7)
    flags = np.zeros(64, I32)
    flags[:2] = (x > 50).any(), (x < -50).any()

    tiles = (x & 3).reshape(4, 16, 16)
    products = (tiles @ tiles).reshape(4, 256)

    def case(**more: Array) -> Case:
        expected = {"tyf".index(name) + 1: array for name, array in more.items()}
        return Case(args, (4,), (256,), expected, scratch=tuple({1, 2, 3} - set(expected)))

    return {
        "exchange_in_block": case(t=x + 1, y=x[at ^ 32] + 1),
        "count_of_blocks": case(y=counts),
        "flags_set_by_many": case(y=x, f=flags),
        "flag_in_block": case(y=x.reshape(4, 256)[:, np.arange(256) % 32].reshape(-1)),
        "flag_between_blocks": case(y=np.tile(x[:256], 4)),
        "halves_meet": case(y=x[at ^ 1]),
        "tile_to_lanes": case(y=products[:, np.arange(256) ^ 24].reshape(-1)),
        "lock_released_by_store": case(y=x.reshape(4, 8, 32)[:, :, 0].sum(1).repeat(256).astype(I32)),
        "lanes_exchange": case(y=2 * x[at ^ 1]),
    }
