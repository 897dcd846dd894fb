// The kernels on a CPU, for tests: every CUDA thread is a fiber, and whoever waits lets the others run. Fibers take turns
// in an order that is drawn anew each time, so that what depends on the order shows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#define __device__
#define __global__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __constant__ static const
#define __align__(n) alignas(n)

typedef unsigned int u32;
struct uint4 {
    u32 x, y, z, w;
};
struct Index {
    u32 x;
};

// Of `size` fibers, over and over.
struct Meeting {
    u32 size = 0, here = 0, turn = 0;
};
struct Block {
    unsigned char* shared;
    Meeting all;
    std::vector<Meeting> warps;
    std::vector<uint64_t> lanes;  // what each thread shows the others of its warp
};
struct Fiber {
    void* stack_pointer;
    unsigned char* stack;
    Block* block;
    Index thread, number;
    bool done;
};
static Fiber* now;
static void* scheduler;
static std::vector<Block> blocks;

// Keeps what the x86-64 calling convention says a function must not change, and goes on on another stack.
extern "C" void swap_stacks(void** save, void* load);
asm(R"(
.text
swap_stacks:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
)");

static void yield() { swap_stacks(&now->stack_pointer, scheduler); }

static void meet(Meeting& m) {
    const u32 turn = m.turn;
    if (++m.here == m.size) {
        m.here = 0, ++m.turn;
        return;
    }
    while (m.turn == turn) yield();
}

#define threadIdx (now->thread)
#define blockIdx (now->number)
#define memory (now->block->shared)
static void __syncthreads() { meet(now->block->all); }

template <typename T> static T __shfl_sync(u32, T mine, u32 lane) {
    Block& b = *now->block;
    const u32 warp = threadIdx.x / 32;
    memcpy(&b.lanes[threadIdx.x], &mine, sizeof(T));
    meet(b.warps[warp]);
    T other;
    memcpy(&other, &b.lanes[32 * warp + lane % 32], sizeof(T));
    meet(b.warps[warp]);
    return other;
}

template <typename T> static T __ldcg(const T* from) { return *from; }
template <typename T> static void __stcg(T* to, T x) { *to = x; }
template <typename T> static T min(T a, T b) { return a < b ? a : b; }
static u32 min(u32 a, int b) { return a < (u32)b ? a : (u32)b; }
static double __longlong_as_double(long long x) {
    double d;
    memcpy(&d, &x, 8);
    return d;
}
static size_t __cvta_generic_to_shared(const void* p) { return (const unsigned char*)p - memory; }
static void* __cvta_shared_to_generic(u32 at) { return memory + at; }
static u32 map_to_block(u32 at, u32 rank) { return at | rank << 24; }
