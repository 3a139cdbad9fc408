import cupy as cp
import numpy as np

cosine_kernel = cp.RawKernel(
    r"""
extern "C" __global__
void cosine_similarity(const float* queries, const float* items, float* scores,
                       const int n_queries, const int n_items, const int dim) {
    int item = blockIdx.x * blockDim.x + threadIdx.x;
    int query = blockIdx.y;
    if (item >= n_items) return;
    float dot = 0.0f, qq = 0.0f, ii = 0.0f;
    for (int d = 0; d < dim; ++d) {
        float q = queries[query * dim + d];
        float v = items[item * dim + d];
        dot += q * v;
        qq += q * q;
        ii += v * v;
    }
    scores[query * n_items + item] = dot * rsqrtf(qq * ii + 1e-12f);
}
""",
    "cosine_similarity",
)


def cosine_scores(queries, items):
    n_queries, dim = queries.shape
    n_items = items.shape[0]
    scores = cp.empty((n_queries, n_items), dtype=cp.float32)
    threads = 256
    grid = ((n_items + threads - 1) // threads, n_queries)
    cosine_kernel(grid, (threads,), (queries, items, scores, np.int32(n_queries), np.int32(n_items), np.int32(dim)))
    return scores


if __name__ == "__main__":
    rng = cp.random.default_rng(0)
    queries = rng.standard_normal((16, 128), dtype=cp.float32)
    items = rng.standard_normal((20000, 128), dtype=cp.float32)
    scores = cosine_scores(queries, items)
    top = cp.argsort(-scores, axis=1)[:, :10]
    print(top[0])
