#!/usr/bin/env python
# gaussian blur of a grey image with pycuda, horizontal and vertical pass
import time

import numpy as np
import pycuda.autoinit  # noqa
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

RADIUS = 8

mod = SourceModule(
    """
#define R %(R)d
#define KSIZE (2*R+1)

__constant__ float taps[KSIZE];

__global__ void blur_h(const unsigned char *src, float *tmp, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float acc = 0.f;
    for (int i = -R; i <= R; i++) {
        int xx = min(max(x + i, 0), w - 1);
        acc += taps[i + R] * src[y * w + xx];
    }
    tmp[y * w + x] = acc;
}

__global__ void blur_v(const float *tmp, unsigned char *dst, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float acc = 0.f;
    for (int i = -R; i <= R; i++) {
        int yy = min(max(y + i, 0), h - 1);
        acc += taps[i + R] * tmp[yy * w + x];
    }
    dst[y * w + x] = (unsigned char)(acc + 0.5f);
}
"""  # noqa: UP031
    % {"R": RADIUS}
)

blur_h = mod.get_function("blur_h")
blur_v = mod.get_function("blur_v")


def gaussian(radius, sigma):
    x = np.arange(-radius, radius + 1)
    g = np.exp(-(x**2) / (2 * sigma**2))
    return (g / g.sum()).astype(np.float32)


def blur(img, sigma=3.0):
    h, w = img.shape
    taps, _ = mod.get_global("taps")
    cuda.memcpy_htod(taps, gaussian(RADIUS, sigma))
    d_src = cuda.mem_alloc(img.nbytes)
    d_tmp = cuda.mem_alloc(img.size * 4)
    d_dst = cuda.mem_alloc(img.nbytes)
    cuda.memcpy_htod(d_src, img)
    block = (32, 8, 1)
    grid = ((w + 31) // 32, (h + 7) // 8)
    blur_h(d_src, d_tmp, np.int32(w), np.int32(h), block=block, grid=grid)
    blur_v(d_tmp, d_dst, np.int32(w), np.int32(h), block=block, grid=grid)
    out = np.empty_like(img)
    cuda.memcpy_dtoh(out, d_dst)
    return out


if __name__ == "__main__":
    img = np.random.randint(0, 256, (480, 640)).astype(np.uint8)
    t = time.time()
    res = blur(img)
    print("took", time.time() - t, res.mean())
