"""bodies: inputs, and the expected outputs by the original kernel in float64."""


def inputs(case, rng):
    """Normal values; whole numbers over a range that the kernel can take."""
    n = case["n"]
    return {
        "x": rng.standard_normal((n,)),
        "y": rng.standard_normal((n,)),
        "z": rng.standard_normal((n,)),
        "m": rng.standard_normal((n,)),
    }


from evo.interop.adopt.oracle import Original  # noqa: E402

_original = Original(__file__, digest="53977af47daf")


def expected(inputs, case):
    """The original kernel in float64, on the simulator."""
    return _original.exact(inputs, case)


def trusted(inputs, case):
    """The original as it is: its error is what a variant may have."""
    return _original.plain(inputs, case)
