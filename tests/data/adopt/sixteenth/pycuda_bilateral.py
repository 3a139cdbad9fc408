#!/usr/bin/env python
# Bilateral filter with PyCUDA
import sys

import numpy as np
import pycuda.driver as drv
from PIL import Image
from pycuda.compiler import SourceModule

RADIUS = 3

SOURCE = """
#define R %(radius)d
__global__ void bilateral(float *dest, const float *src, int width, int height,
                          float sigma_s, float sigma_r)
{
    const int x = threadIdx.x + blockDim.x * blockIdx.x;
    const int y = threadIdx.y + blockDim.y * blockIdx.y;
    if (x >= width || y >= height)
        return;
    float centre = src[y * width + x];
    float acc = 0.0f, norm = 0.0f;
    for (int dy = -R; dy <= R; dy++) {
        for (int dx = -R; dx <= R; dx++) {
            int xx = min(max(x + dx, 0), width - 1);
            int yy = min(max(y + dy, 0), height - 1);
            float v = src[yy * width + xx];
            float diff = v - centre;
            float w = expf(-(dx * dx + dy * dy) / (2 * sigma_s * sigma_s)
                           - diff * diff / (2 * sigma_r * sigma_r));
            acc += w * v;
            norm += w;
        }
    }
    dest[y * width + x] = acc / norm;
}
"""

mod = SourceModule(SOURCE % {"radius": RADIUS})
bilateral = mod.get_function("bilateral")


def main():
    if len(sys.argv) > 1:
        img = np.asarray(Image.open(sys.argv[1]).convert("L"), dtype=np.float32) / 255.0
    else:
        img = np.random.rand(1080, 1920).astype(np.float32)
    height, width = img.shape
    out = np.empty_like(img)
    block = (16, 16, 1)
    grid = ((width + block[0] - 1) // block[0], (height + block[1] - 1) // block[1])
    bilateral(
        drv.Out(out),
        drv.In(img),
        np.int32(width),
        np.int32(height),
        np.float32(2.0),
        np.float32(0.1),
        block=block,
        grid=grid,
    )
    Image.fromarray((out * 255).astype(np.uint8)).save("filtered.png")


if __name__ == "__main__":
    main()
