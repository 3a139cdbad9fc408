"""Races between blocks and between the lanes of a warp, and warp instructions with the wrong lanes: small snippets.

Each row: what it shows, the kind that must be reported (None: silence), body, launch options.
"""

# ruff: noqa: E501 a CUDA snippet reads best on one line
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import run

F = np.float32
CASES: list[tuple[str, str | None, str, dict[str, Any]]] = [
    ('clean', None, 'a[bl*64+t]=b[t];', {}),
    ('overlap', 'race', 'a[bl*63+t]=b[t];', {}),
    ('read other', 'race', 'a[bl*64+t]=1; float y=a[((bl+1)%4)*64+t]; if(y>5) a[0]=1;', {}),
    ('same value', None, 'a[t]=1;', {}),
    ('uniform read', None, 'if(t==0) a[bl]=1; if (a[5]>3) a[bl+10]=2;', {}),
    ('uniform read race', 'race', 'if(t==0) a[bl]=1; if (a[1]>3) a[bl+10]=2;', {}),
    ('ticket', None, '  if (t==0) a[bl]=b[bl]; __threadfence(); __shared__ int last; __syncthreads(); if (t==0) last = atomicAdd(f,1)==gridDim.x-1; __syncthreads(); if (last) { float s=0; for(int i=0;i<gridDim.x;i++) s+=((volatile float*)a)[i]; if(t==0) a[100]=s; }', {}),
    ('ticket volatile data no fence', 'race', '  if (t==0) a[bl]=b[bl]; __shared__ int last; __syncthreads(); if (t==0) last = atomicAdd(f,1)==gridDim.x-1; __syncthreads(); if (last) { float s=0; for(int i=0;i<gridDim.x;i++) s+=((volatile float*)a)[i]; if(t==0) a[100]=s; }', {}),
    ('ticket weak', None, '  if (t==0) a[bl]=b[bl]; __threadfence(); __shared__ int last; __syncthreads(); if (t==0) last = atomicAdd(f,1)==gridDim.x-1; __syncthreads(); if (last) { float s=0; for(int i=0;i<gridDim.x;i++) s+=(a)[i]; if(t==0) a[100]=s; }', {}),
    ('ticket no fence', 'race', '  if (t==0) a[bl]=b[bl]; __shared__ int last; __syncthreads(); if (t==0) last = atomicAdd(f,1)==gridDim.x-1; __syncthreads(); if (last) { float s=0; for(int i=0;i<gridDim.x;i++) s+=(a)[i]; if(t==0) a[100]=s; }', {}),
    ('ticket block fence', 'race', '  if (t==0) a[bl]=b[bl]; __threadfence_block(); __shared__ int last; __syncthreads(); if (t==0) last = atomicAdd(f,1)==gridDim.x-1; __syncthreads(); if (last) { float s=0; for(int i=0;i<gridDim.x;i++) s+=(a)[i]; if(t==0) a[100]=s; }', {}),
    ('hist', None, 'atomicAdd(f+t%7,1); atomicAdd(a+t%5,1.f);', {}),
    ('atomic vs store', 'race', 'if(t==0) f[0]=0; atomicAdd(f,1);', {}),
    ('flag', None, 'if(bl==0){ a[t]=t; __threadfence(); __syncthreads(); if(t==0) *(volatile int*)f=1;} else { while(*(volatile int*)f==0); __threadfence(); a[bl*64+t]=a[t]; }', {}),
    ('flag nofence', 'race', 'if(bl==0){ a[t]=t; __syncthreads(); if(t==0) *(volatile int*)f=1;} else { while(*(volatile int*)f==0); a[bl*64+t]=a[t]; }', {}),
    ('halves', None, '((short*)a)[bl*65+t]=3; if (t==0) ((short*)a)[bl*65+64]=3;', {}),
    ('nosync', 'race', '__shared__ float s[64]; s[t]=b[t]; a[t]=s[t^1];', {'grid': (1,)}),
    ('sync', None, '__shared__ float s[64]; s[t]=b[t]; __syncwarp(); a[t]=s[t^1];', {'grid': (1,)}),
    ('own', None, '__shared__ float s[64]; s[t]=b[t]; a[t]=s[t];', {'grid': (1,)}),
    ('shfl sync', 'race', '__shared__ float s[64]; s[t]=b[t]; float x=__shfl_xor_sync(~0u,s[t],1); a[t]=s[t^1]+x;', {'grid': (1,)}),
    ('volatile reduce', 'race', 'volatile __shared__ float s[64]; s[t]=b[t]; if(t<32){s[t]+=s[t+32];}', {'grid': (1,)}),
    ('volatile reduce in lock-step', 'race', 'volatile __shared__ float s[64]; s[t]=b[t]; __syncthreads(); if(t<32){s[t]+=s[t+32];s[t]+=s[t+16];s[t]+=s[t+8];s[t]+=s[t+4];s[t]+=s[t+2];s[t]+=s[t+1];} if(t==0)a[0]=s[0];', {'grid': (1,)}),
    ('volatile exchange with syncwarp', None, 'volatile __shared__ float s[64]; s[t]=b[t]; __syncwarp(); a[t]=s[t^1];', {'grid': (1,)}),
    ('plain store, volatile load in lock-step', 'race', '__shared__ float s[64]; s[t]=b[t]; a[t]=((volatile float*)s)[t^1];', {'grid': (1,)}),
    ('volatile store, plain load in lock-step', 'race', '__shared__ float s[64]; ((volatile float*)s)[t]=b[t]; a[t]=s[t^1];', {'grid': (1,)}),
    ('volatile in global memory in lock-step', 'race', 'volatile float* v=a; v[t]=b[t]; a[100+t]=v[t^1];', {'grid': (1,)}),
    ('what a lane has polled is read again', None, 'volatile int* g=f; if(t<31){ if(t==0) g[1]=7; while(g[t+(t==0)]==0); if(t) g[t+1]=g[t]+1; }', {'grid': (1,)}),
    ('what a lane has polled is read again, shared', None, 'volatile __shared__ int g[33]; if(t<32) g[t]=0; __syncthreads(); if(t<31){ if(t==0) g[1]=7; while(g[t+(t==0)]==0); if(t) g[t+1]=g[t]+1; }', {'grid': (1,)}),
    ('plain reduce', 'race', '__shared__ float s[64]; s[t]=b[t]; __syncthreads(); if(t<32){s[t]+=s[t+32];s[t]+=s[t+16];} if(t==0)a[0]=s[0];', {'grid': (1,)}),
    ('WAR', 'race', '__shared__ float s[64]; s[t]=b[t]; __syncwarp(); float x=s[t^1]; s[t]=x;__syncwarp(); a[t]=s[t];', {'grid': (1,)}),
    ('WAR cp.async', 'race', '__shared__ float s[64]; s[t]=b[t]; __syncwarp(); float x=s[t^1]; unsigned at=(unsigned)__cvta_generic_to_shared(s+t); asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;"::"r"(at),"l"(b+t):"memory"); __syncwarp(); a[t]=x+s[t];', {'grid': (1,)}),
    ('WAR cp.async ok', None, '__shared__ float s[64]; s[t]=b[t]; __syncwarp(); float x=s[t^1]; __syncwarp(); unsigned at=(unsigned)__cvta_generic_to_shared(s+t); asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;"::"r"(at),"l"(b+t):"memory"); __syncwarp(); a[t]=x+s[t];', {'grid': (1,)}),
    ('WAR ok', None, '__shared__ float s[64]; s[t]=b[t]; __syncwarp(); float x=s[t^1]; __syncwarp(); s[t]=x;__syncwarp(); a[t]=s[t];', {'grid': (1,)}),
    ('bcast', 'race', '__shared__ float s[64]; if(t%32==0) s[t]=b[t]; a[t]=s[t&~31];', {'grid': (1,)}),
    ('bcast uniform', 'race', '__shared__ float s[64]; if(t==0) s[0]=b[t]; if (t<32) a[t]=s[0];', {'grid': (1,)}),
    ('bcast ok', None, '__shared__ float s[64]; if(t==0) s[0]=b[t]; __syncwarp(); if (t<32) a[t]=s[0];', {'grid': (1,)}),
    ('same one store', None, '__shared__ float s[64]; s[t/2]=t/2; __syncwarp(); a[t]=s[t/2];', {'grid': (1,)}),
    ('shfl mask of lanes that left', None, 'if(t%32<16) a[t]=__shfl_down_sync(~0u,b[t],1);', {'grid': (1,)}),
    ('shfl mask own', 'warp_sync', 'a[t]=__shfl_down_sync(0xffff,b[t],1);', {'grid': (1,)}),
    ('shfl half', None, 'if(t%32<16) a[t]=__shfl_down_sync(0xffff,b[t],8);', {'grid': (1,)}),
    ('shfl down tree of a half warp', None, 'float v=b[t]; for(int d=8;d;d>>=1) v+=__shfl_down_sync(~0u,v,d); if(!t) a[0]=v;', {'grid': (1,), 'block': (16,)}),
    ('shfl down tree of lanes that left', None, 'if(t>=4) return; float v=b[t]; v+=__shfl_down_sync(~0u,v,2); v+=__shfl_down_sync(~0u,v,1); if(!t) a[0]=v;', {'grid': (1,)}),
    ('shfl down tree of too few', 'warp_sync', 'float v=b[t]; v+=__shfl_down_sync(~0u,v,16);  if(!t) a[0]=v;', {'grid': (1,), 'block': (20,)}),
    ('shfl down tree of mask', None, 'float v=b[t]; v+=__shfl_down_sync(0xfffff,v,16);  if(t<4) a[t]=v;', {'grid': (1,), 'block': (20,)}),
    ('shfl down segments', 'warp_sync', 'a[t]=__shfl_down_sync(~0u,b[t],4,8);', {'grid': (1,), 'block': (20,)}),
    ('shfl down segments ok', None, 'a[t]=__shfl_down_sync(~0u,b[t],4,8);', {'grid': (1,), 'block': (24,)}),
    ('shfl up from lanes that left', 'warp_sync', 'if(t<8) return; a[t]=__shfl_up_sync(~0u,b[t],4);', {'grid': (1,)}),
    ('shfl up', None, 'a[t]=__shfl_up_sync(~0u,b[t],4);', {'grid': (1,), 'block': (20,)}),
    ('shfl tail idx', 'warp_sync', 'a[t]=__shfl_sync(~0u,b[t],20);', {'grid': (1,), 'block': (16,)}),
    ('shfl tail xor', 'warp_sync', 'a[t]=__shfl_xor_sync(0xffff,b[t],16);', {'grid': (1,), 'block': (16,)}),
    ('shfl tail ok', None, 'a[t]=__shfl_xor_sync(0xffff,b[t],8);', {'grid': (1,), 'block': (16,)}),
    ('vote mask of lanes that left', None, 'if(t&1) a[t]=__ballot_sync(~0u,t&2);', {'grid': (1,)}),
    ('vote active', None, 'if(t&1) a[t]=__ballot_sync(__activemask(),t&2);', {'grid': (1,)}),
    ('match groups', None, 'unsigned m=__match_any_sync(~0u,t%5); a[t]=__reduce_add_sync(m,t);', {'grid': (1,)}),
    ('warp spin', None, 'volatile __shared__ int g; if(t==0) g=0; __syncthreads(); if(t==0){ while(g==0); a[t]=1;} if (t==63) { __threadfence_block(); g=1; a[t]=2;}', {'grid': (1,), 'budget': 10000000}),
    ('global: lanes of a warp', 'race', 'f[t]=t+1; a[t]=f[t^1];', {'grid': (1,)}),
    ('global: lanes of a warp ok', None, 'f[t]=t+1; __syncwarp(); a[t]=f[t^1];', {'grid': (1,)}),
    ('global: lanes of a warp WAR', 'race', 'float x=a[t^1]; a[t]=x+1;', {'grid': (1,)}),
    ('global: lanes of a warp in turns', None, 'for(int i=0;i<3;i++){ a[bl*64+t]=b[t]+i; __syncwarp(); float x=a[bl*64+(t^5)]; __syncwarp(); a[bl*64+t]=x; __syncwarp(); }', {}),
    ('global: one word of a warp', 'race', 'a[0]+=b[t];', {'grid': (1,), 'block': (32,)}),
    ('global: warps of a block', 'race', 'f[t]=t+1; __syncwarp(); a[t]=f[t^32];', {'grid': (1,)}),
    ('global: one word of eight warps', 'race', 'if(t%32==0) a[0]+=b[t];', {'grid': (1,), 'block': (256,)}),
    ('global: a vote is no order', 'race', 'f[t]=t; unsigned x=__any_sync(~0u,b[t]>3); a[t]=f[t^1]+x;', {'grid': (1,)}),
    ('volatile store, plain load in block', 'race', '((volatile float*)a)[t]=b[t]; a[100+t]=a[t^32];', {'grid': (1,)}),
    ('plain store, volatile load in block', 'race', 'a[t]=b[t]; a[100+t]=((volatile float*)a)[t^32];', {'grid': (1,)}),
    ('volatile both in block', 'race', '((volatile float*)a)[t]=b[t]; a[100+t]=((volatile float*)a)[t^32];', {'grid': (1,)}),
    ('volatile store, plain load of another block', 'race', 'if(t==0) {((volatile float*)a)[bl]=b[bl]; a[100+bl]=a[(bl+1)%4];}', {}),
    ('plain store, volatile load of another block', 'race', 'if(t==0) {a[bl]=b[bl]; a[100+bl]=((volatile float*)a)[(bl+1)%4];}', {}),
    ('volatile flag polled once', None, 'if(*(volatile int*)f) return; if(b[bl*64+t]>250) *(volatile int*)f=1;', {}),
    ('volatile look at a peeled poll', None, 'if(t==0){ volatile int* g=f; if(bl==0) g[0]=5; else { int w=g[bl-1]; while(w==0) w=g[bl-1]; g[bl]=w+1; a[bl]=w; } }', {}),
    ('volatile look before compare and swap', None, 'int old=*(volatile int*)f,as; do{ as=old; old=atomicCAS(f,as,as+1);}while(as!=old);', {}),
    ('atomics, then a plain load of another block', 'race', 'if(bl==3) a[0]=f[0]; else atomicAdd(f,1);', {'block': (1,)}),
    ('maxima, then a plain load of another block', 'race', 'if(bl==3) a[0]=f[0]; else atomicMax(f,bl);', {'block': (1,)}),
    ('plain store, then compare and swap', 'race', 'if(bl==0) f[0]=7; else atomicCAS(f,0,bl);', {'block': (1,)}),
    ('atomics read plainly by the last block', None, 'atomicAdd(&f[16+t%8],1); __threadfence(); __syncthreads(); __shared__ int l; if(t==0) l=atomicAdd(f,1)==gridDim.x-1; __syncthreads(); if(l&&t<8) a[t]=f[16+t];', {}),
    ('atomics read plainly by the last block, no fence', 'race', 'atomicAdd(&f[16+t%8],1); __syncthreads(); __shared__ int l; if(t==0) l=atomicAdd(f,1)==gridDim.x-1; __syncthreads(); if(l&&t<8) a[t]=f[16+t];', {}),
    ('atomic of block scope', 'race', 'if(t==0) atomicAdd_block(f,1);', {}),
    ('atomic of block scope, own word', None, 'atomicAdd_block(f+bl,1);', {}),
    ('syncwarp of lanes beside others that left', 'race', '__shared__ float s[32]; s[t]=b[t]; if(t<16) {__syncwarp(0xffff); a[t]=s[t+16];}', {'grid': (1,), 'block': (32,)}),
    ('syncwarp of the lanes that stay', None, '__shared__ float s[64]; s[t]=b[t]; __syncwarp(); if(t%32>=16) return; __syncwarp(0xffff); a[bl*64+t]=s[t^16]+s[t^1];', {}),
    ('syncwarp of a short warp', None, '__shared__ float s[64]; s[t]=b[t]; __syncwarp(); a[bl*64+t]=s[t^1];', {'block': (40,)}),
    ('flag by acquire and release', None, 'if(bl==0){ a[t]=b[t]; __syncthreads(); if(t==0) asm volatile("red.release.gpu.global.add.u32 [%0],%1;"::"l"(f),"r"(1):"memory"); } else { if(t==0){ int v; do asm volatile("ld.acquire.gpu.global.u32 %0,[%1];":"=r"(v):"l"(f):"memory"); while(!v);} __syncthreads(); a[bl*64+t]=a[t]; }', {}),
    ('flag by relaxed', 'race', 'if(bl==0){ a[t]=b[t]; __syncthreads(); if(t==0) asm volatile("red.relaxed.gpu.global.add.u32 [%0],%1;"::"l"(f),"r"(1):"memory"); } else { if(t==0){ int v; do asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];":"=r"(v):"l"(f):"memory"); while(!v);} __syncthreads(); a[bl*64+t]=a[t]; }', {}),
    ('barrier of the grid by hand', None, 'for(int i=1;i<4;++i){ a[i*256+bl*64+t]=i==1?b[t]:a[(i-1)*256+((bl+1)%4)*64+t]; __syncthreads(); if(t==0){ volatile int* gen=f+1; int my=*gen; __threadfence(); if(atomicAdd(f,1)==gridDim.x-1){ *(volatile int*)f=0; __threadfence(); *gen=my+1; } else while(*gen==my); __threadfence(); } __syncthreads(); }', {}),
    ('pairs of blocks that share a sector, no fence after the flag', 'race', 'int r=bl/2; __shared__ int old; if(t==0){ a[bl]=b[bl]; __threadfence(); old=atomicAdd(f+r,1);} __syncthreads(); if(old==0) return; if(t==0) a[100+r]=a[2*r]+a[2*r+1];', {}),
    ('pairs of blocks, a fence after the flag', None, 'int r=bl/2; __shared__ int old; if(t==0){ a[bl]=b[bl]; __threadfence(); old=atomicAdd(f+r,1); __threadfence();} __syncthreads(); if(old==0) return; if(t==0) a[100+r]=a[2*r]+a[2*r+1];', {}),
    ('pairs of blocks, a fence after the barrier', None, 'int r=bl/2; __shared__ int old; if(t==0){ a[bl]=b[bl]; __threadfence(); old=atomicAdd(f+r,1);} __syncthreads(); if(old==0) return; __threadfence(); if(t==0) a[100+r]=a[2*r]+a[2*r+1];', {}),
    ('pairs of blocks that read past the first-level cache', None, 'int r=bl/2; __shared__ int old; if(t==0){ a[bl]=b[bl]; __threadfence(); old=atomicAdd(f+r,1);} __syncthreads(); if(old==0) return; if(t==0) a[100+r]=__ldcg(a+2*r)+__ldcg(a+2*r+1);', {}),
    ('pairs of blocks that read volatile words', None, 'int r=bl/2; __shared__ int old; if(t==0){ a[bl]=b[bl]; __threadfence(); old=atomicAdd(f+r,1);} __syncthreads(); if(old==0) return; if(t==0) a[100+r]=((volatile float*)a)[2*r]+((volatile float*)a)[2*r+1];', {}),
    ('pairs of blocks in sectors of their own', None, 'int r=bl/2; __shared__ int old; if(t==0){ a[16*r+bl%2]=b[bl]; __threadfence(); old=atomicAdd(f+r,1);} __syncthreads(); if(old==0) return; if(t==0) a[100+r]=a[16*r]+a[16*r+1];', {}),
    ('all blocks read all after one barrier by hand, no fence after it', None, 'if(t==0){ a[bl]=b[bl]; __threadfence(); atomicAdd(f,1); while(atomicAdd(f,0)<gridDim.x); } __syncthreads(); float s=0; for(int i=0;i<gridDim.x;++i) s+=a[i]; a[100+bl]=s;', {}),
    ('blocks that read one another in turns, no fence after the barrier by hand', 'race', 'for(int i=0;i<3;++i){ const float v=a[i%2*512+(bl+1)%4]; __syncthreads(); if(t==0){ a[(i+1)%2*512+bl]=v+1; __threadfence(); atomicAdd(f,1); while(atomicAdd(f,0)<(i+1)*gridDim.x); } __syncthreads(); }', {}),
    ('blocks that read one another in turns', None, 'for(int i=0;i<3;++i){ const float v=a[i%2*512+(bl+1)%4]; __syncthreads(); if(t==0){ a[(i+1)%2*512+bl]=v+1; __threadfence(); atomicAdd(f,1); while(atomicAdd(f,0)<(i+1)*gridDim.x); __threadfence(); } __syncthreads(); }', {}),
    ('unused atomic', 'race', 'a[bl]=1; __threadfence(); atomicAdd(f,1); float s=a[(bl+1)%4]; if (s>7) a[100+bl]=s;', {'block': (1,)}),
    ('shared max then load last warp', 'race', '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t%32==0) atomicMax(&m,t); if(t==n-1) a[0]=m;', {'grid': (1,)}),
    ('shared add then load last warp', 'race', '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t%32==0) atomicAdd(&m,t); if(t==n-1) a[0]=m;', {'grid': (1,)}),
    ('shared max then load first warp', 'race', '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t%32==0) atomicMax(&m,t); if(t==0) a[0]=m;', {'grid': (1,)}),
    ('shared max, volatile load last warp', 'race', '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t%32==0) atomicMax(&m,t); if(t==n-1) a[0]=*(volatile int*)&m;', {'grid': (1,)}),
    ('shared max by one, store by other', 'race', '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t==0) {atomicMax(&m,t);} if(t==63) m=t+7; __syncthreads(); a[t]=m;', {'grid': (1,)}),
    ('shared max barrier', None, '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t%32==0) atomicMax(&m,t); __syncthreads(); if(t==n-1) a[0]=m;', {'grid': (1,)}),
    ('warp lanes, load', 'race', '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t<32) {atomicMax(&m,t); if(t==7) a[0]=m;}', {'grid': (1,)}),
    ('warp lanes, syncwarp, load', None, '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t<32) {atomicMax(&m,t); __syncwarp(); if(t==7) a[0]=m;}', {'grid': (1,)}),
    ('generic max then load last warp', 'race', '__shared__ int m2[2]; int* p=n>100?f:m2; if(t==0) *p=0; __syncthreads(); if(t%32==0) atomicMax(p,t); if(t==n-1) a[0]=*p;', {'grid': (1,)}),
    ('cas loop plain', None, '__shared__ int m; if(t==0) m=0; __syncthreads(); int o=m,as; do{as=o; o=atomicCAS(&m,as,as+t);}while(as!=o); __syncthreads(); a[t]=m;', {'grid': (1,)}),
    ('peek max', None, '__shared__ int m; if(t==0) m=0; __syncthreads(); if(t*3%64>m) atomicMax(&m,t*3%64); __syncthreads(); a[t]=m;', {'grid': (1,)}),
    ('lock shared exch', None, '__shared__ int l; __shared__ int s; if(t==0) {l=0;s=0;} __syncthreads(); if(t%32==0){ while(atomicCAS(&l,0,1)); __threadfence_block(); s+=t; __threadfence_block(); atomicExch(&l,0); } __syncthreads(); a[t]=s;', {'grid': (1,)}),
    ('flag by atomics in block', None, '__shared__ int fl; __shared__ int s; if(t==0) {fl=0;} __syncthreads(); if(t==0){ s=5; __threadfence_block(); atomicExch(&fl,1);} if(t==32){ while(atomicAdd(&fl,0)==0); __threadfence_block(); a[0]=s;}', {'grid': (1,)}),
    ('counter by warp leaders, rows', None, '__shared__ int m; if(t==0) m=0; __syncthreads(); for(int r=0;r<3;r++){ if(t%32==0) atomicAdd(&m,1); __syncthreads(); a[t]=m; __syncthreads(); if(t==0) m=0; __syncthreads();}', {'grid': (1,)}),
    ('global max then load last warp', 'race', 'if(t%32==0) atomicMax(f,t+1); if(t==n-1) a[0]=f[0];', {'grid': (1,)}),
    ('global add then load last warp', 'race', 'if(t%32==0) atomicAdd(f,t); if(t==n-1) a[0]=f[0];', {'grid': (1,)}),
    ('global max then load first warp', 'race', 'if(t%32==0) atomicMax(f,t); if(t==0) a[0]=f[0];', {'grid': (1,)}),
    ('global max then load barrier', None, 'if(t%32==0) atomicMax(f,t); __syncthreads(); if(t==n-1) a[0]=f[0];', {'grid': (1,)}),
    ('global max then volatile load last', 'race', 'if(t%32==0) atomicMax(f,t+1); if(t==n-1) a[0]=*(volatile int*)f;', {'grid': (1,)}),
    ('global cas loop plain in blocks', None, 'int o=f[0],as; do{as=o; o=atomicCAS(f,as,as+t);}while(as!=o);', {}),
    ('global peek max in blocks', None, 'if(t*3%64>f[0]) atomicMax(f,t*3%64);', {}),
    ('global double add', None, 'unsigned long long* p=(unsigned long long*)f; unsigned long long o=*p,as; do{as=o; o=atomicCAS(p,as,__double_as_longlong(1.0+__longlong_as_double(as)));}while(as!=o); a[bl*64+t]=__longlong_as_double(o);', {}),
    ('max vs plain load first, between blocks', 'race', 'if(bl==0) a[0]=f[0]; else atomicMax(f,bl);', {'block': (1,)}),
    ('volatile parts', 'race', '__shared__ int b4; if(t==0){((volatile float*)a)[bl]=b[bl]; b4=atomicAdd(f,1);} __syncthreads(); if(b4<3) return; float s=0; for(int i=0;i<4;i++) s+=((volatile float*)a)[i]; if(t==0) a[100]=s;', {}),
    ('volatile parts fence', None, '__shared__ int b4; if(t==0){((volatile float*)a)[bl]=b[bl]; __threadfence(); b4=atomicAdd(f,1);} __syncthreads(); if(b4<3) return; float s=0; for(int i=0;i<4;i++) s+=((volatile float*)a)[i]; if(t==0) a[100]=s;', {}),
    ('relaxed parts', 'race', '__shared__ int b4; if(t==0){asm volatile("st.relaxed.gpu.global.f32 [%0],%1;"::"l"(a+bl),"f"(b[bl]):"memory"); b4=atomicAdd(f,1);} __syncthreads(); if(b4<3) return; float s=0; for(int i=0;i<4;i++) {float v; asm volatile("ld.relaxed.gpu.global.f32 %0,[%1];":"=f"(v):"l"(a+i):"memory"); s+=v;} if(t==0) a[100]=s;', {}),
    ('volatile value after polled flag, no fence', 'race', 'volatile float* v=a; volatile int* g=f; if(t==0){ if(bl==0){ v[0]=b[3]; g[0]=1; } else { while(g[0]==0); a[100+bl]=v[0]; } }', {}),
    ('volatile value after polled flag, fence', None, 'volatile float* v=a; volatile int* g=f; if(t==0){ if(bl==0){ v[0]=b[3]; __threadfence(); g[0]=1; } else { while(g[0]==0); __threadfence(); a[100+bl]=v[0]; } }', {}),
    ('look-back packed', None, 'volatile unsigned long long* w=(volatile unsigned long long*)f; if(t==0){ int own=bl+1; if(bl==0) w[0]=(2ull<<32)|own; else { w[bl]=(1ull<<32)|own; int sum=0; for(int p=bl-1;p>=0;){ unsigned long long x=w[p]; if(x>>32==0) continue; sum+=(int)x; if(x>>32==2) break; p--; } w[bl]=(2ull<<32)|(unsigned)(sum+own); a[bl]=sum; } }', {}),
    ('look-back warp', None, 'volatile int* w=f; if(t<32){ int own=bl+1; if(t==0) w[bl]=(bl?1<<30:2<<30)|own; int sum=0; if(bl){ int p=bl-1-t; for(;;){ int x; do { x=p>=0?w[p]:(int)(2u<<30); } while(__any_sync(~0u,x==0)); unsigned q=__ballot_sync(~0u,(unsigned)x>>30==2); int last=q?__ffs(q)-1:31; int v=t<=last?x&0xffffff:0; for(int d=16;d;d>>=1) v+=__shfl_xor_sync(~0u,v,d); sum+=v; if(q) break; p-=32; } if(t==0) w[bl]=(2<<30)|(sum+own); } if(t==0) a[bl]=sum; }', {}),
    ('stop flag', None, 'volatile int* g=f; for(int i=0;i<20;i++){ if(g[0]) break; if(b[i]*bl>30) g[0]=1; a[bl*64+t]+=i; }', {'block': (1,)}),
    ('relaxed counter read as data', None, 'if(t==0){ atomicAdd(f,1); a[bl]=*(volatile int*)f; }', {}),
    ('grid barrier volatile data', None, 'for(int i=1;i<4;++i){ ((volatile float*)a)[i*256+bl*64+t]=i==1?b[t]:((volatile float*)a)[(i-1)*256+((bl+1)%4)*64+t]; __syncthreads(); if(t==0){ volatile int* gen=f+1; int my=*gen; __threadfence(); if(atomicAdd(f,1)==gridDim.x-1){ *(volatile int*)f=0; __threadfence(); *gen=my+1; } else while(*gen==my); __threadfence(); } __syncthreads(); }', {}),
    ('atomics of a ballot, read after a barrier', None, '__shared__ int m; if(t==0) m=0; __syncthreads(); unsigned q=__ballot_sync(~0u,t%3==0); int at=0; if(t%32==0) at=atomicAdd(&m,__popc(q)); at=__shfl_sync(~0u,at,0); if(t%3==0) a[at+__popc(q&((1u<<t%32)-1))]=t; __syncthreads(); if(t==0) a[500]=m;', {'grid': (1,)}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "body", "options"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_order(kind: str | None, body: str, options: dict[str, Any]) -> None:
    source = 'extern "C" __global__ void k(float* a, const float* b, int* f, int n) {\n'
    source += f"  int t = threadIdx.x, bl = blockIdx.x;\n{body}\n}}\n"
    arrays = [np.zeros(1024, F), np.arange(1024, dtype=F), np.zeros(1024, np.int32), np.int32(64)]
    _, result = run(source, "k", arrays, readonly=(1,), **{"grid": (4,), "block": (64,)} | options)
    assert [fault.kind for fault in result.faults[:1]] == ([kind] if kind else [])
    if kind:
        assert result.faults[0].source_line == 3


def test_equal_stores_of_several_blocks_are_noted() -> None:
    source = 'extern "C" __global__ void k(float* a, int own) { a[own ? blockIdx.x : 0] = 1; }'
    for own in (0, 1):
        _, result = run(source, "k", [np.zeros(8, F), np.int32(own)], grid=(4,), block=(1,))
        assert result.faults == ()
        assert len(result.notes) == 1 - own


TILE = """#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void k(float* a) {
  __shared__ float o[256];
  float* to = PLACE;
  fragment<accumulator, 16, 16, 16, float> z;
  fill_fragment(z, 2.f);
  store_matrix_sync(to, z, 16, mem_row_major);
  SYNC
  for (int i = threadIdx.x; i < 256; i += 32) a[256 + i] = to[i];
}"""


@pytest.mark.parametrize("place", ["o", "a"])
def test_a_stored_matrix_is_read_after_a_barrier(place: str) -> None:
    for sync, count in (("__syncwarp();", 0), ("", 1)):
        source = TILE.replace("PLACE", place).replace("SYNC", sync)
        _, result = run(source, "k", [np.zeros(512, F)], grid=(1,), block=(32,))
        assert [fault.kind for fault in result.faults[:1]] == ["race"] * count
