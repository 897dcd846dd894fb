// A lane for each slot: information sets are packed into warps whole, so that lanes can add up what they hold.
#if !SETS

// The lanes of an information set add up what each holds, in the order of its actions; all of them get the sum.
template <typename T> INLINE T ordered_sum(T mine, const Item& item) {
    T total = 0;
#pragma unroll
    for (u32 j = 0; j < MOST; ++j) {
        const T other = __shfl_sync(EVERYONE, mine, item.lane() + j);
        total = total + (j < item.count() ? other : (T)0);
    }
    return total;
}

INLINE REAL largest(REAL mine, const Item& item) {
    REAL top = LOWEST;
    for (u32 j = 0; j < MOST; ++j) {
        const REAL other = __shfl_sync(EVERYONE, mine, item.lane() + j);
        top = j < item.count() && other > top ? other : top;
    }
    return top;
}

// The number of this warp, in a way that tells the compiler that it is the same for all lanes.
INLINE u32 warp_number() { return __shfl_sync(EVERYONE, threadIdx.x / 32, 0); }

INLINE Item item_at(const Share& s, u32 warp) {
    const uint4 whole = (const uint4&)s.item[32 * warp + (threadIdx.x & 31)];
    Item item;
    item.a = whole.x, item.b = whole.y, item.above = whole.z, item.d = whole.w;
    return item;
}

INLINE bool busy(const Item& item) { return item.is(BUSY); }

#define PART(n) 1.0 / (n), 1.0 / (n + 1.0), 1.0 / (n + 2.0), 1.0 / (n + 3.0)
__constant__ double parts[32] = {PART(1), PART(5), PART(9), PART(13), PART(17), PART(21), PART(25), PART(29)};

INLINE double uniform(const Item& item) { return item.is(DEAD) ? 0.0 : parts[item.live() - 1]; }

// A slot's value: what the terminals give it, and the values of the information sets below it, from the last.
INLINE REAL slot_value(const Share& s, const Item& item) {
    REAL g = s.g[item.slot()];
    g = item.is(HAS_ROW) ? g : (REAL)0;
    const u32 kids = item.kids(), last = item.kid() + kids - 1;
    for (u32 j = 0; j < kids; j += 4) {
        REAL below[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) below[i] = s.v[last - min(j + i, kids - 1)];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) g = g + (j + i < kids ? below[i] : (REAL)0);
    }
    return g;
}

// One level from below: v(I) = sum of sigma g (UP); or the value of the average strategy (VALUE), or of the best reply
// (BEST), which keeps to what is locked.
template <int WHAT> INLINE void level_up(const Share& s, u32 w0, u32 w1, u32 mine, Item item) {
    for (u32 warp = w0 + mine; warp < w1; warp += WARPS) {
        const Item next = warp + WARPS < w1 ? item_at(s, warp + WARPS) : item;
        const REAL g = slot_value(s, item);
        REAL share;
        if constexpr (WHAT == VALUE) {
            const double average = s.average[item.slot()];
            const double total = ordered_sum(average, item);
            share = (REAL)(item.is(LOCKED) ? (double)s.sigma[item.slot()]
                           : total > 0.0   ? part_of(average, total)
                                           : uniform(item));
        } else {
            share = s.sigma[item.slot()];
        }
        REAL v = ordered_sum((REAL)(share * g), item);
        if constexpr (WHAT == BEST) {
            const REAL top = largest(item.is(DEAD) ? LOWEST : g, item);
            v = item.is(LOCKED) ? v : top;
        }
        if (busy(item)) {
            s.v[item.infoset()] = v;
            if constexpr (WHAT == UP) s.g[item.slot()] = g;
        }
        item = next;
    }
}

// Regret matching in all information sets of the share, from what `level_up` left.
INLINE void match(const Share& s, const Rates& rate, u32 mine) {
    const u32 end = s.level[s.levels];
    Item item = {};
    if (mine < end) item = item_at(s, mine);
    for (u32 warp = mine; warp < end; warp += WARPS) {
        const Item soon = warp + WARPS < end ? item_at(s, warp + WARPS) : item;
        const bool moves = busy(item) && !item.is(LOCKED | DEAD);
        double r = (double)s.g[item.slot()] - (double)s.v[item.infoset()];
        r = fabs(r) <= s.tie[item.infoset()] ? 0.0 : r;
        double regret = s.regret[item.slot()] + r;
        regret = regret * (regret > 0.0 ? rate.positive : rate.negative);
        double m = regret + rate.predict * r;
        m = moves && m > 0.0 ? m : 0.0;
        const double total = ordered_sum(m, item);
        // the CPU's kernels keep these in the strategy until they divide
        if (item.count() > 3 || item.live() < item.count()) m = (double)(REAL)m;
        const double next = total > 0.0 ? part_of(m, total) : uniform(item);
        if (moves) {
            s.regret[item.slot()] = regret;
            s.sigma[item.slot()] = (REAL)next;
        }
        item = soon;
    }
}

// One level from above: x = x(above) sigma. STEP first adds the old x to the average; REALISE_AVERAGE takes the average
// strategy for sigma.
template <int WHAT> INLINE void level_down(const Share& s, u32 w0, u32 w1, bool top, const Rates& rate, u32 mine, Item item) {
    for (u32 warp = w0 + mine; warp < w1; warp += WARPS) {
        const Item next = warp + WARPS < w1 ? item_at(s, warp + WARPS) : item;
        const REAL above = top ? plan_of(s, item.above) : s.x[item.above];
        REAL sigma = 0;
        double average = 0;
        if constexpr (WHAT == REALISE_AVERAGE || WHAT == STEP) average = s.average[item.slot()];
        if constexpr (WHAT != REALISE_AVERAGE) sigma = s.sigma[item.slot()];
        if constexpr (WHAT == REALISE_AVERAGE) {
            const double total = ordered_sum(average, item);
            sigma = (REAL)(item.is(LOCKED) ? (double)s.sigma[item.slot()]
                           : total > 0.0   ? part_of(average, total)
                                           : uniform(item));
        }
        if (busy(item)) {
            if constexpr (WHAT == STEP) s.average[item.slot()] = average + rate.weight * (double)s.x[item.slot() + 1];
            publish(s, item.slot(), above * sigma);
        }
        item = next;
    }
}

template <int WHAT> INLINE void all_levels_up(const Share& s, u32 mine) {
    u32 l = s.levels, w1 = s.level[l], w0 = l ? s.level[l - 1] : 0;
    Item item = {};
    if (w0 + mine < w1) item = item_at(s, w0 + mine);
#pragma unroll 1
    for (; l > 0; --l) {
        level_up<WHAT>(s, w0, w1, mine, item);
        w1 = w0, w0 = l > 1 ? s.level[l - 2] : 0;
        if (w0 + mine < w1) item = item_at(s, w0 + mine);  // fetched before the barrier that it does not depend on
        __syncthreads();
    }
}

template <int WHAT> INLINE void all_levels_down(const Share& s, const Rates& rate, u32 mine) {
    u32 w0 = 0, w1 = s.levels ? s.level[1] : 0;
    Item item = {};
    if (mine < w1) item = item_at(s, mine);
#pragma unroll 1
    for (u32 l = 0; l < s.levels; ++l) {
        level_down<WHAT>(s, w0, w1, l == 0, rate, mine, item);
        w0 = w1, w1 = l + 2 <= s.levels ? s.level[l + 2] : w1;
        if (w0 + mine < w1) item = item_at(s, w0 + mine);
        __syncthreads();
    }
}

#endif
