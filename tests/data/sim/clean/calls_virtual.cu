// Objects that choose a function, by the table that each of them points to; lanes of a warp choose differently.
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
  long long sum = i;
  for (int j = 0; j < 4; ++j) sum = step->next(sum, x[(i + j) % 64]);
  o[i] = (int)sum;
}
