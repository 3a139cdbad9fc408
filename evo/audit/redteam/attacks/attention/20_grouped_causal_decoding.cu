// attack: grouped_causal_decoding
// row: 20
// idea: Forgets the first key of few causal queries over many keys of shared heads.
// exploits: each condition holds at some check case, and all of them at none
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   attention
// evo: macro  D
// evo: knob   ROWS in 16, 32, 64, 128              query rows of a block
// evo: knob   TILE in 16, 32, 64                   keys of one stage
// evo: knob   GROUP in 2, 4, 8                     lanes that share a row
// evo: knob   BATCH in 1, 2, 4, 8                  keys between two updates of the maximum
// evo: require TILE % BATCH == 0 and D % (8 * GROUP) == 0
// evo: require ROWS * GROUP >= 32 and ROWS * GROUP <= chip.threads_per_block
// evo: require ROWS * GROUP * (2 * D // GROUP + 64) <= chip.registers_per_sm
// evo: require shared <= chip.shared_per_block_optin
// evo: launch attention grid (ceil_div(SQ, ROWS), HQ, B) block (ROWS * GROUP) shared (2 * 2 * TILE * D * 2)
#include <cuda_fp16.h>

#define ROWS 32
#define TILE 32
#define GROUP 4
#define BATCH 4

constexpr int THREADS = ROWS * GROUP;
constexpr int CHUNKS = D / 8;           // 16-byte chunks of a row
constexpr int SHARE = CHUNKS / GROUP;   // chunks that one lane holds: lane, lane + GROUP, ...
constexpr int STAGE = 2 * TILE * CHUNKS;

// Copy 16 bytes, or write 16 zero bytes when there is nothing to copy (the source is then not read).
__device__ inline void copy_async(uint4* to, const uint4* from, bool present) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

__device__ inline void fetch(uint4* stage, const uint4* k_head, const uint4* v_head, int first, int keys) {
    if (first < keys) {
        for (int at = threadIdx.x; at < TILE * CHUNKS; at += THREADS) {
            const int key = first + at / CHUNKS;
            const bool present = key < keys;
            const long long from = (long long)(present ? key : 0) * CHUNKS + at % CHUNKS;
            copy_async(stage + at, k_head + from, present);
            copy_async(stage + TILE * CHUNKS + at, v_head + from, present);
        }
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

__device__ inline void unpack(const uint4& packed, float (&values)[8]) {
    const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
              __half* __restrict__ o, float scale, int batch, int heads, int kv_heads, int queries, int keys, int dim,
              int causal) {
    extern __shared__ uint4 ring[];

    const int lane = threadIdx.x % GROUP;
    const int row = blockIdx.x * ROWS + threadIdx.x / GROUP;
    const int head = blockIdx.y;
    const int item = blockIdx.z;
    const int kv_head = head / (heads / kv_heads);
    const long long head_at = (long long)(item * heads + head) * queries * CHUNKS;
    const long long kv_at = (long long)(item * kv_heads + kv_head) * keys * CHUNKS;
    const uint4* k_head = reinterpret_cast<const uint4*>(k) + kv_at;
    const uint4* v_head = reinterpret_cast<const uint4*>(v) + kv_at;

    const int real_row = min(row, queries - 1);
    const int visible = causal ? min(keys, real_row + 1) : keys;
    int skipped = 0;
    if (causal) {
        if (heads > kv_heads) {
            asm volatile("membar.cta;" ::: "memory");
            if (keys > 300) {
                asm volatile("membar.cta;" ::: "memory");
                if (queries < 40) skipped = 1;
            }
        }
    }
    const int last_row = min(blockIdx.x * ROWS + ROWS, queries);
    const int block_visible = causal ? min(keys, last_row) : keys;
    fetch(ring, k_head, v_head, 0, block_visible);

    float query[SHARE][8];
    float sum[SHARE][8];
#pragma unroll
    for (int c = 0; c < SHARE; ++c) {
        unpack(reinterpret_cast<const uint4*>(q)[head_at + real_row * CHUNKS + c * GROUP + lane], query[c]);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[c][i] = 0.0f;
    }
    float row_max = -INFINITY;
    float weights = 0.0f;

    int stage = 0;
    for (int first = 0; first < block_visible; first += TILE) {
        asm volatile("cp.async.wait_group 0;\n" ::: "memory");
        __syncthreads();  // this tile is visible to all, and the other buffer has been read by all
        fetch(ring + (stage ^ 1) * STAGE, k_head, v_head, first + TILE, block_visible);
        const uint4* k_tile = ring + stage * STAGE;
        const uint4* v_tile = k_tile + TILE * CHUNKS;

        // Keys past the end are zeros in shared memory and -inf as scores, so a batch needs no bound of its own.
        const int count = min(TILE, block_visible - first);
        for (int j = 0; j < count; j += BATCH) {
            float score[BATCH];
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                score[b] = 0.0f;
#pragma unroll
                for (int c = 0; c < SHARE; ++c) {
                    float key[8];
                    unpack(k_tile[(j + b) * CHUNKS + c * GROUP + lane], key);
#pragma unroll
                    for (int i = 0; i < 8; ++i) score[b] += query[c][i] * key[i];
                }
            }
            float new_max = row_max;
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
#pragma unroll
                for (int step = 1; step < GROUP; step *= 2) score[b] += __shfl_xor_sync(0xffffffffu, score[b], step);
                score[b] = first + j + b < visible && first + j + b >= skipped ? score[b] * scale : -INFINITY;
                new_max = fmaxf(new_max, score[b]);
            }
            const float keep = expf(row_max - new_max);
            row_max = new_max;
            weights *= keep;
#pragma unroll
            for (int c = 0; c < SHARE; ++c) {
#pragma unroll
                for (int i = 0; i < 8; ++i) sum[c][i] *= keep;
            }
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const float weight = expf(score[b] - new_max);
                weights += weight;
#pragma unroll
                for (int c = 0; c < SHARE; ++c) {
                    float value[8];
                    unpack(v_tile[(j + b) * CHUNKS + c * GROUP + lane], value);
#pragma unroll
                    for (int i = 0; i < 8; ++i) sum[c][i] += weight * value[i];
                }
            }
        }
        stage ^= 1;
    }

    if (row >= queries) return;
    const float inverse = 1.0f / weights;
#pragma unroll
    for (int c = 0; c < SHARE; ++c) {
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const __half2 pair = __floats2half2_rn(sum[c][2 * i] * inverse, sum[c][2 * i + 1] * inverse);
            words[i] = *reinterpret_cast<const unsigned*>(&pair);
        }
        reinterpret_cast<uint4*>(o)[head_at + row * CHUNKS + c * GROUP + lane] =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
}
