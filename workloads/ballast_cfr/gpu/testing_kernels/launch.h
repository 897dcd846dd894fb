// Runs all blocks of a launch to their end.
static Problem problem;

static void begin() {
    solve(problem);
    now->done = true;
    for (;;) yield();
}

static void ready(Fiber& f, Block& block, u32 thread, u32 number) {
    const size_t size = 128 << 10;
    f.stack = (unsigned char*)malloc(size);
    f.block = &block, f.thread.x = thread, f.number.x = number, f.done = false;
    void** top = (void**)(((uintptr_t)f.stack + size) / 64 * 64);
    *--top = nullptr;  // a stack is aligned as it is after a call
    *--top = (void*)begin;
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    f.stack_pointer = top;
}

extern "C" int launch(const void* argument, u32 size, u32 count, u32 threads, u32 seed) {
    if (size != sizeof(Problem)) return 1;
    memcpy((void*)&problem, argument, sizeof(Problem));
    blocks.assign(count, Block());
    std::vector<Fiber> fibers(count * threads);
    const size_t shared = SHARED_BYTES + 64 + sizeof(u32) * 2 * DESCRIPTOR;
    for (u32 b = 0; b < count; ++b) {
        blocks[b].shared = (unsigned char*)aligned_alloc(64, (shared + 63) / 64 * 64);
        memset(blocks[b].shared, 0xff, shared);
        blocks[b].all.size = threads;
        blocks[b].warps.assign(threads / 32, Meeting{32});
        blocks[b].lanes.assign(threads, 0);
        for (u32 t = 0; t < threads; ++t) ready(fibers[b * threads + t], blocks[b], t, b);
    }
    std::vector<u32> order(fibers.size());
    std::iota(order.begin(), order.end(), 0);
    std::minstd_rand dice(seed);
    for (size_t left = order.size(); left;) {
        left = 0;
        std::shuffle(order.begin(), order.end(), dice);
        for (u32 next : order) {
            if (fibers[next].done) continue;
            ++left;
            now = &fibers[next];
            swap_stacks(&scheduler, now->stack_pointer);
        }
    }
    for (auto& f : fibers) free(f.stack);
    for (auto& b : blocks) free(b.shared);
    return 0;
}
