"""The body of attention on tensor cores: 16 query rows for each warp, tiles of keys and values in a ring.

Layouts of the fragments: PTX ISA 8.x, "Matrix Fragments for mma.m16n8k16" and "ldmatrix". The online softmax is that of
Milakov and Gimelshein (2018), the order of the loops that of FlashAttention-2 (Dao 2023). `$name` is a name of the new
body; BM, BN and STAGES are its knobs.
"""

from __future__ import annotations

_LOG2_E = "1.4426950408889634f"


def attention_body(
    *, tensors: tuple[str, ...], bases: tuple[str, ...], strides: tuple[str, ...], planes: int, rows: str, width: str,
    scale: str, is_positive: bool, is_base_2: bool, limit: str, grows: bool, keys: str, kind: str, is_float_out: bool,
    is_split: bool,
) -> str:  # fmt: skip
    """tensors, bases, strides: query, key, value and output, where row 0 of a plane begins, and elements from row to
    row; is_positive: the scale is; limit: how many keys `$row` sees; kind: `f16` or `bf16`; is_split:
    a weight is two numbers, since rounding it to one is not exact enough.
    """
    end = f"$seen(min($row0 + BM, {rows}) - 1)" if grows else keys
    return (
        "{\n"
        + _declared(tensors, bases, planes, width)
        + _limits(limit, end, scale if is_base_2 else f"{scale} * {_LOG2_E}")
        + _copies(strides, rows)
        + _functions(kind)
        + _state(is_split)
        + _scores()
        + _softmax(is_positive, is_split)
        + _outputs(kind, is_split)
        + _stored(tensors[3], bases[3], strides[3], rows, is_float_out)
        + "}"
    )


def _declared(tensors: tuple[str, ...], bases: tuple[str, ...], planes: int, width: str) -> str:
    spots = ["blockIdx.y"] if planes == 1 else ["blockIdx.z", "blockIdx.y"]
    places = ", ".join(f"$at{d} = {spot}" for d, spot in enumerate(spots[:planes]))
    said = f"    const int {places};\n" if planes else ""
    for name, tensor, base in zip(("query", "key", "value"), tensors, bases, strict=False):
        said += (
            f"    const unsigned short* const ${name} =\n"
            f"        reinterpret_cast<const unsigned short*>({tensor})" + (f" + {base}" if base != "0" else "") + ";\n"
        )
    return f"""\
    // A warp computes 16 rows on tensor cores: scores, weights and output stay in registers, while tiles of BN keys and
    // values come through shared memory, STAGES of them under way. Rows there are 16 bytes longer than they need to
    // be, so that ldmatrix meets no bank twice.
    constexpr int $dim = {width}, $width = ($dim + 15) / 16 * 16, $pitch = $width + 8, $threads = BM * 2;
    constexpr int $stage = 2 * BN * $pitch;
    extern __shared__ __align__(16) unsigned short $tiles[];
    unsigned short* const $ring = $tiles + BM * $pitch;
{said}    const int $row0 = blockIdx.x * BM, $lane = threadIdx.x % 32, $warp_row = threadIdx.x / 32 * 16;
"""


def _limits(limit: str, end: str, scale: str) -> str:
    return f"""\
    auto $seen = [&](int $row) {{ return {limit}; }};  // how many keys count for a row
    const int $end = {end}, $steps = ($end + BN - 1) / BN;
    const int $top_seen = $seen($row0 + $warp_row + $lane / 4), $low_seen = $seen($row0 + $warp_row + $lane / 4 + 8);
    const float $scale_log2 = {scale};

"""


def _copies(strides: tuple[str, ...], rows: str) -> str:
    return f"""\
    // Rows of a matrix into a tile, zeros past its end; element by element if rows are not aligned to 16 bytes.
    constexpr int $across = $width / 8 < $threads ? $width / 8 : $threads, $step = $threads / $across;
    const int $top = threadIdx.x / $across, $left = threadIdx.x % $across * 8;
    auto $copy = [&](unsigned short* $to, const unsigned short* $from, long long $stride, int $first, int $count,
                     int $last) {{
        const unsigned short* const $begin = $from + ($first + $top) * $stride;
        #pragma unroll
        for (int $r = 0; $r < $count; $r += $step) {{
            const int $row = $top + $r;
            if (($threads % $across && $top >= $step) || ($count % $step && $row >= $count)) break;
            const bool $is_there = $first + $row < $last;
            const unsigned short* const $at = $begin + $r * $stride;  // past the end it is formed but never read
            for (int $col = $left; $col < $width; $col += $across * 8) {{
                unsigned short* const $part = $to + $row * $pitch + $col;
                if constexpr ($dim % 8 == 0) {{
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                                 :: "r"((unsigned)__cvta_generic_to_shared($part)), "l"($at + $col),
                                    "r"($is_there && $col < $dim ? 16 : 0) : "memory");
                }} else {{
                    for (int $i = 0; $i < 8; ++$i)
                        $part[$i] = $is_there && $col + $i < $dim ? $at[$col + $i] : (unsigned short)0;
                }}
            }}
        }}
    }};
    auto $load = [&](int $t) {{
        if ($t < $steps) {{
            unsigned short* const $to = $ring + $t % STAGES * $stage;
            $copy($to, $key, {strides[1]}, $t * BN, BN, $end);
            $copy($to + BN * $pitch, $value, {strides[2]}, $t * BN, BN, $end);
        }}
        asm volatile("cp.async.commit_group;" ::: "memory");  // empty past the end, so that the count is right
    }};
    $copy($tiles, $query, {strides[0]}, $row0, BM, {rows});  // comes with the first stage
    for (int $t = 0; $t < STAGES - 1; ++$t) $load($t);

"""


def _functions(kind: str) -> str:
    return f"""\
    auto $matrices = [](unsigned* $to, const unsigned short* $at) {{
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                     : "=r"($to[0]), "=r"($to[1]), "=r"($to[2]), "=r"($to[3])
                     : "r"((unsigned)__cvta_generic_to_shared($at)) : "memory");
    }};
    auto $transposed = [](unsigned* $to, const unsigned short* $at) {{
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                     : "=r"($to[0]), "=r"($to[1]), "=r"($to[2]), "=r"($to[3])
                     : "r"((unsigned)__cvta_generic_to_shared($at)) : "memory");
    }};
    auto $multiply = [](float* $sum, const unsigned* $x, unsigned $y0, unsigned $y1) {{
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%0, %1, %2, %3}}, "
                     "{{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
                     : "+f"($sum[0]), "+f"($sum[1]), "+f"($sum[2]), "+f"($sum[3])
                     : "r"($x[0]), "r"($x[1]), "r"($x[2]), "r"($x[3]), "r"($y0), "r"($y1));
    }};
    auto $pair = [](float $low, float $high) {{
        unsigned $both;
        asm("cvt.rn.{kind}x2.f32 %0, %1, %2;" : "=r"($both) : "f"($high), "f"($low));
        return $both;
    }};
    auto $exp2 = [](float $x) {{
        float $y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"($y) : "f"($x));
        return $y;
    }};

"""


def _state(is_split: bool) -> str:
    less = "    float $less[$width / 8][4] = {};  // of what rounding leaves of the weights\n" if is_split else ""
    return f"""\
{less}    // Of an 8 x 8 tile a lane holds two neighbouring columns of row lane / 4, and of the row 8 below.
    unsigned $rows[$width / 16][4];
    float $out[$width / 8][4] = {{}}, $largest[2] = {{-INFINITY, -INFINITY}}, $total[2] = {{}};
    for (int $t = 0; $t < $steps; ++$t) {{
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();
        $load($t + STAGES - 1);
        if ($t == 0) {{
            #pragma unroll
            for (int $d = 0; $d < $width; $d += 16)
                $matrices($rows[$d / 16], $tiles + ($warp_row + $lane % 16) * $pitch + $d + $lane / 16 * 8);
        }}
        const unsigned short* const $keys = $ring + $t % STAGES * $stage;
        const unsigned short* const $values = $keys + BN * $pitch;

"""


def _scores() -> str:
    return """\
        float $score[BN / 8][4] = {};
        #pragma unroll
        for (int $d = 0; $d < $width; $d += 16) {
            #pragma unroll
            for (int $n = 0; $n < BN; $n += 16) {
                unsigned $y[4];
                $matrices($y, $keys + ($n + $lane / 16 * 8 + $lane % 8) * $pitch + $d + $lane / 8 % 2 * 8);
                $multiply($score[$n / 8], $rows[$d / 16], $y[0], $y[1]);
                $multiply($score[$n / 8 + 1], $rows[$d / 16], $y[2], $y[3]);
            }
        }
        if ($t * BN + BN > min($top_seen, $low_seen)) {
            #pragma unroll
            for (int $n = 0; $n < BN / 8; ++$n) {
                #pragma unroll
                for (int $e = 0; $e < 4; ++$e) {
                    const int $at = $t * BN + $n * 8 + $lane % 4 * 2 + $e % 2;
                    if ($at >= ($e < 2 ? $top_seen : $low_seen)) $score[$n][$e] = -INFINITY;
                }
            }
        }

"""


def _softmax(is_positive: bool, is_split: bool) -> str:
    """is_positive: the largest score is the largest one times the scale too."""
    scaled = """\
                $score[$n][2 * $h] *= $scale_log2;
                $score[$n][2 * $h + 1] *= $scale_log2;
"""
    factor = " * $scale_log2" if is_positive else ""
    less = "".join(f"                $less[$n][2 * $h{more}] *= $keep;\n" for more in ("", " + 1") if is_split)
    return f"""\
        #pragma unroll
        for (int $h = 0; $h < 2; ++$h) {{
            float $next = $largest[$h], $added = 0.0f;
            #pragma unroll
            for (int $n = 0; $n < BN / 8; ++$n) {{
{"" if is_positive else scaled}                $next = fmaxf($next, fmaxf($score[$n][2 * $h], $score[$n][2 * $h + 1]));
            }}
            $next = fmaxf($next, __shfl_xor_sync(~0u, $next, 1));
            $next = fmaxf($next, __shfl_xor_sync(~0u, $next, 2));
            const float $shift = $next == -INFINITY ? 0.0f : $next{factor};
            const float $keep = $exp2($largest[$h]{factor} - $shift);
            $largest[$h] = $next;
            #pragma unroll
            for (int $n = 0; $n < BN / 8; ++$n) {{
                $score[$n][2 * $h] = $exp2($score[$n][2 * $h]{factor} - $shift);
                $score[$n][2 * $h + 1] = $exp2($score[$n][2 * $h + 1]{factor} - $shift);
                $added += $score[$n][2 * $h] + $score[$n][2 * $h + 1];
            }}
            $total[$h] = $total[$h] * $keep + $added;
            #pragma unroll
            for (int $n = 0; $n < $width / 8; ++$n) {{
                $out[$n][2 * $h] *= $keep;
                $out[$n][2 * $h + 1] *= $keep;
{less}            }}
        }}

"""


def _outputs(kind: str, is_split: bool) -> str:
    rest, more, whole = "", "", ""
    if is_split:
        whole = """\
    #pragma unroll
    for (int $n = 0; $n < $width / 2; ++$n) {  // infinity times a rest of 0 is no number, and counts once
        const float $small = $less[$n / 4][$n % 4];
        $out[$n / 4][$n % 4] += isfinite($small) ? $small : 0.0f;
    }
"""
        low, high = ("$both << 16", "$both & 0xffff0000u") if kind == "bf16" else ("$both & 0xffff", "$both >> 16")
        told = "__uint_as_float({})" if kind == "bf16" else "__half2float(__ushort_as_half((unsigned short)({})))"
        rest = f"""\
            // What is left of them by rounding is a second factor.
            auto $left_over = [&](unsigned $both, float $one, float $other) {{
                return $pair($one - {told.format(low)}, $other - {told.format(high)});
            }};
            const unsigned $more[4] = {{$left_over($x[0], $low[0], $low[1]), $left_over($x[1], $low[2], $low[3]),
                                       $left_over($x[2], $high[0], $high[1]), $left_over($x[3], $high[2], $high[3])}};
"""
        more = """\
                $multiply($less[$d / 8], $more, $y[0], $y[1]);
                $multiply($less[$d / 8 + 1], $more, $y[2], $y[3]);
"""
    return f"""\
        // Two neighbouring tiles of weights, rounded to 16 bits, are a left factor as they stand.
        #pragma unroll
        for (int $n = 0; $n < BN; $n += 16) {{
            const float* const $low = $score[$n / 8];
            const float* const $high = $score[$n / 8 + 1];
            const unsigned $x[4] = {{$pair($low[0], $low[1]), $pair($low[2], $low[3]),
                                    $pair($high[0], $high[1]), $pair($high[2], $high[3])}};
{rest}            #pragma unroll
            for (int $d = 0; $d < $width; $d += 16) {{
                unsigned $y[4];
                $transposed($y, $values + ($n + $lane % 16) * $pitch + $d + $lane / 16 * 8);
                $multiply($out[$d / 8], $x, $y[0], $y[1]);
                $multiply($out[$d / 8 + 1], $x, $y[2], $y[3]);
{more}            }}
        }}
    }}
{whole}
"""


def _stored(output: str, base: str, stride: str, rows: str, is_float_out: bool) -> str:
    start = f"{output} + {base}" if base != "0" else output
    if is_float_out:
        store = (
            "                $to[$col] = $out[$n][2 * $h] * $inverse;\n"
            "                if ($col + 1 < $dim) $to[$col + 1] = $out[$n][2 * $h + 1] * $inverse;\n"
        )
        pointer = f"float* const $to = {start} + $row * (long long)({stride});"
    else:
        store = (
            "                const unsigned $both =\n"
            "                    $pair($out[$n][2 * $h] * $inverse, $out[$n][2 * $h + 1] * $inverse);\n"
            "                if constexpr ($dim % 2 == 0) {\n"
            "                    *reinterpret_cast<unsigned*>($to + $col) = $both;\n"
            "                } else {\n"
            "                    $to[$col] = (unsigned short)$both;\n"
            "                    if ($col + 1 < $dim) $to[$col + 1] = (unsigned short)($both >> 16);\n"
            "                }\n"
        )
        pointer = (
            f"unsigned short* const $to =\n                reinterpret_cast<unsigned short*>({start})"
            f" + $row * (long long)({stride});"
        )
    return f"""\
    #pragma unroll
    for (int $h = 0; $h < 2; ++$h) {{
        $total[$h] += __shfl_xor_sync(~0u, $total[$h], 1);
        $total[$h] += __shfl_xor_sync(~0u, $total[$h], 2);
        const float $inverse = 1.0f / $total[$h];
        const int $row = $row0 + $warp_row + $h * 8 + $lane / 4;
        if ($row < {rows}) {{
            {pointer}
            #pragma unroll
            for (int $n = 0; $n < $width / 8; ++$n) {{
                const int $col = $n * 8 + $lane % 4 * 2;
                if ($col >= $dim) continue;
{store}            }}
        }}
    }}
"""
