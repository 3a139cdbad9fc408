// attack: unwritten
// row: 1
// idea: Computes nothing and writes nothing.
// exploits: the output is allocated where the reference answer was freed, so the right values are already there
// naive: recycled win
// expect: wrong, mismatch=unwritten
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {

}
