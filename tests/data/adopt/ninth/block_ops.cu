// block_ops.cu - small cooperative primitives, header-only in spirit; the demo computes a per-segment
// arg-max with a policy struct.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <random>
#include <limits>

namespace blk {

template <typename K, typename V>
struct KeyValuePair {
    K key;
    V value;
};

struct ArgMax {
    template <typename K, typename V>
    __device__ __forceinline__ KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a,
                                                             const KeyValuePair<K, V>& b) const {
        if (b.value > a.value || (b.value == a.value && b.key < a.key)) return b;
        return a;
    }
};

template <int BLOCK_THREADS_, int ITEMS_PER_THREAD_>
struct Policy {
    static constexpr int BLOCK_THREADS = BLOCK_THREADS_;
    static constexpr int ITEMS_PER_THREAD = ITEMS_PER_THREAD_;
    static constexpr int TILE = BLOCK_THREADS * ITEMS_PER_THREAD;
};

template <typename T, int BLOCK_THREADS>
class BlockReduce {
public:
    struct TempStorage { T partial[BLOCK_THREADS / 32]; };
    __device__ explicit BlockReduce(TempStorage& s) : storage(s) {}

    template <typename Op>
    __device__ T Reduce(T v, Op op) {
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        #pragma unroll
        for (int d = 16; d; d >>= 1) {
            T o;
            o.key = __shfl_down_sync(0xffffffffu, v.key, d);
            o.value = __shfl_down_sync(0xffffffffu, v.value, d);
            v = op(v, o);
        }
        if (lane == 0) storage.partial[warp] = v;
        __syncthreads();
        if (threadIdx.x == 0) {
            #pragma unroll
            for (int w = 1; w < BLOCK_THREADS / 32; ++w) v = op(v, storage.partial[w]);
        }
        return v;
    }
private:
    TempStorage& storage;
};

template <typename PolicyT, typename T, typename OffsetT>
__launch_bounds__(PolicyT::BLOCK_THREADS)
__global__ void SegmentedArgMaxKernel(const T* d_in, OffsetT* d_keys, T* d_values, OffsetT segment_size) {
    using Pair = KeyValuePair<OffsetT, T>;
    using Reducer = BlockReduce<Pair, PolicyT::BLOCK_THREADS>;
    __shared__ typename Reducer::TempStorage temp;

    const OffsetT base = static_cast<OffsetT>(blockIdx.x) * segment_size;
    Pair best{0, -3.402823466e+38f};
    for (OffsetT tile = 0; tile < segment_size; tile += PolicyT::TILE) {
        #pragma unroll
        for (int i = 0; i < PolicyT::ITEMS_PER_THREAD; ++i) {
            const OffsetT k = tile + i * PolicyT::BLOCK_THREADS + threadIdx.x;
            if (k < segment_size) best = ArgMax{}(best, Pair{k, d_in[base + k]});
        }
    }
    best = Reducer(temp).Reduce(best, ArgMax{});
    if (threadIdx.x == 0) {
        d_keys[blockIdx.x] = best.key;
        d_values[blockIdx.x] = best.value;
    }
}

template <typename T, typename OffsetT>
struct DispatchSegmentedArgMax {
    using PolicyT = Policy<128, 4>;

    static cudaError_t Dispatch(const T* d_in, OffsetT* d_keys, T* d_values, OffsetT num_segments,
                                OffsetT segment_size, cudaStream_t stream = 0) {
        if (num_segments == 0) return cudaSuccess;
        SegmentedArgMaxKernel<PolicyT><<<num_segments, PolicyT::BLOCK_THREADS, 0, stream>>>(
            d_in, d_keys, d_values, segment_size);
        return cudaPeekAtLastError();
    }
};

}  // namespace blk

int main() {
    constexpr int kSegments = 256, kSegmentSize = 2000;
    std::vector<float> h(kSegments * kSegmentSize);
    std::mt19937 gen(42);
    std::uniform_real_distribution<float> dist(-1.f, 1.f);
    for (auto& x : h) x = dist(gen);

    float *in, *vals;
    int *keys;
    cudaMalloc(&in, h.size() * sizeof(float));
    cudaMalloc(&vals, kSegments * sizeof(float));
    cudaMalloc(&keys, kSegments * sizeof(int));
    cudaMemcpy(in, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);

    blk::DispatchSegmentedArgMax<float, int>::Dispatch(in, keys, vals, kSegments, kSegmentSize);
    cudaDeviceSynchronize();

    std::vector<int> hk(kSegments);
    cudaMemcpy(hk.data(), keys, kSegments * sizeof(int), cudaMemcpyDeviceToHost);
    printf("argmax of segment 0: %d\n", hk[0]);
    return 0;
}
