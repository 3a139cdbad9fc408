// Pointers to arrays and to functions in constant memory, chosen by lane.
__device__ int A[128], B[128];
__constant__ int* T[2] = {A, B};
__constant__ int* const U[4] = {A + 1, B + 2, B, A};
typedef int (*Op)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int mul(int a, int b) { return a * b; }
__device__ int sub(int a, int b) { return a - b; }
__constant__ Op ops[3] = {add, mul, sub};
extern "C" __global__ void k(int* o) {
  int i = threadIdx.x;
  T[i & 1][i] = i * 7;
  T[~i & 1][i] = -i;
  __syncthreads();
  o[i] = ops[i % 3](U[i & 3][i >> 1], T[1][i]);
}
