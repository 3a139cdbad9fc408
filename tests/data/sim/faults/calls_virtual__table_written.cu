// A table of functions is written through an object.
// fault: read_only
// like: clean/calls_virtual.cu
struct Step { __device__ virtual long long next(long long sum, int value) const = 0; };
struct Plain : Step {
  __device__ long long next(long long sum, int value) const override { return sum + value; }
};
struct Turned : Plain {
  int by;
  __device__ explicit Turned(int b) : by(b) { }
  __device__ long long next(long long sum, int value) const override { return Plain::next(sum, -value) * by; }
};
extern "C" __global__ void k(const int* x, int* o) {
  int i = threadIdx.x;
  Plain plain;
  Turned turned(i % 5);
  const Step* step = i % 3 == 0 ? &plain : &turned;
  long long* table = *(long long* const*)step;
  table[-2] = i;  // FAULT
  long long sum = i;
  for (int j = 0; j < 4; ++j) sum = step->next(sum, x[(i + j) % 64]);
  o[i] = (int)sum;
}
