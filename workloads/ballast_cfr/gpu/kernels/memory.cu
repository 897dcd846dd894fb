// Where everything lies. Compiled for one game and one shape of the machine: the host defines, for each player P,
//   NB blocks of NT threads for one solve, REGIME (ONE, CLUSTER or GRID), MAXL levels, MOST actions, ALTERNATE,
//   PUSH, POISON, SETS: whether a thread works on an information set, or a lane on a slot,
//   CUT(P): whether player P has a trunk, which block 0 works on while the others hold the subtrees below it; TRUNK(P):
//   its slots; CUT_ROOTS(P): how many subtrees there are; LONGS: whether there are rows of more than 16 entries,
//   AT_name_P: byte offset of an array in shared memory, or -1 if it stays in global memory,
//   REAL (double, or float for mixed precision), COLUMN (index of a sequence).
// A share is what one block holds of one player: information sets by level, their slots, and rows of the payoff
// matrix. Sequence 0 is the empty one; slot k of a share is sequence 1 + slot0 + k.

typedef unsigned int u32;
typedef unsigned short u16;

#define ONE 0
#define CLUSTER 1
#define GRID 2
#define INLINE __device__ __forceinline__

enum { N_INFOSETS, N_SLOTS, N_LEVELS, INFOSET0, SLOT0, ITEM0, ROW0, N_ROWS, LONG0, N_LONG, CUT0, IS_TRUNK, ENTRY0, N_ENTRIES,
       G0, N_ROOTS, V0, LEVEL0 };
#if SETS
#define DESCRIPTOR (LEVEL0 + 2 * (MAXL + 1))  // level l: its first information set; then the end; then the same of slots
#else
#define DESCRIPTOR (LEVEL0 + MAXL + 1)  // level l: its first warp of items; then the end
#endif

// A thread's work on one information set: its first slot, its actions, its flags.
struct Set {
    u32 a;
    INLINE u32 first() const { return a & 0xffff; }
    INLINE u32 count() const { return (a >> 16) & 0xff; }
    INLINE bool is(u32 flag) const { return a & flag << 24; }
};

// What is below a slot: the first information set, where the next slot's begin; and flags. One more than there are slots.
struct Below {
    u32 a;
    INLINE u32 kid() const { return a & 0xffff; }
    INLINE bool is(u32 flag) const { return a & flag << 16; }
};

// A lane's work on one slot. Information sets are packed into warps whole, so that lanes can add up what they hold.
struct __align__(16) Item {
    u32 a, b, above, d;                                      // above: sequence above, counted from 1 in the share;
    INLINE u32 slot() const { return a & 0xffff; }           //   in level 0 as the whole game counts
    INLINE u32 infoset() const { return a >> 16; }
    INLINE u32 kid() const { return b & 0xffff; }            // first information set below the slot; below the trunk
    INLINE u32 kids() const { return b >> 16; }              //   come the subtrees' roots, counted on
    INLINE u32 lane() const { return d & 0xff; }             // first lane of the information set
    INLINE u32 count() const { return (d >> 8) & 0xff; }     // its actions
    INLINE u32 live() const { return d >> 24; }              // its actions that are not masked
    INLINE bool is(u32 flag) const { return d & flag << 16; }
};
#define LOCKED 1    // the strategy of this information set stays as it is
#define DEAD 2      // this action is masked; of an information set: one of its actions is
#define HAS_ROW 4   // the payoff matrix has entries for this slot
#define BUSY 8      // there is a slot; idle lanes read slot 0 and write nothing

// A thread's part of one row, of at most 16 entries, 32 parts side by side: entry, entry + 32, ...
struct __align__(8) Row {
    u32 entry;
    u32 to;  // bits 0-23 where the sum goes: slot, or partial sum; FOREIGN: slot of the trunk; bits 26-31 entries
};
#define FOREIGN (1u << 24)
#define NOWHERE (1u << 25)
#define TARGET 0xffffffu
#define LENGTH_SHIFT 26

// One player's arrays in global memory, all shares after one another.
struct Arrays {
    const u32* descriptor;   // (NB, DESCRIPTOR)
    const Item* item;        // (warps * 32,), or, with SETS, the three that follow
    const Set* set;          // (I,)
    const Below* below;      // (S + blocks,)
    const u32* above;        // (S,) sequence above, counted from 1 in the share; in level 0 as the whole game counts
    const double* tie;       // (I,)
    const Row* row;          // (parts,)
    const REAL* value;       // (entries,)
    const COLUMN* column;    // (entries,) the other player's sequence
    const u32* longs;        // (long rows, 3) target as in Row, first partial sum, how many
    double* regret;          // (S,)
    double* average;         // (S,)
    REAL* sigma;             // (S,)
    REAL* plan;              // (S + 1,)
    REAL* g;                 // (S + partial sums,) scratch
    REAL* v;                 // (I + roots below the trunk,) scratch
    REAL* cut;               // (roots of subtrees,) their values
    REAL* trunk;             // (slots of the trunk,) what the terminals give them
    u32 entry0_end;          // entries of the empty sequence's row
    const REAL* row0_value;
    const COLUMN* row0_column;
};

struct Problem {
    Arrays player[2];
    const double* weight;    // (iterations,)
    const double* positive;
    const double* negative;
    const u32* looks;        // (n_looks,) iterations, counted from 1 in this launch, after which to evaluate
    double* found;           // (instances, 3) value, best reply of player 0, of player 1
    u32* status;             // (instances, 2) iterations done, whether the target was met
    u32* barrier;            // (instances, 128) counters, zero at the start
    double predict;
    double target;           // exploitability to stop at; negative: never
    double shift;
    u32 iterations;
    u32 n_looks;
    // instances of a batch: how far apart their arrays are, 0 if they share one
    u32 stride_state[2], stride_plan[2], stride_value[2], stride_tie[2], stride_item[2], stride_row0[2];
    u32 stride_set[2], stride_below[2];
    u32 stride_g[2], stride_v[2], stride_cut[2], stride_trunk[2];
};

extern __shared__ __align__(16) unsigned char memory[];

template <typename T> INLINE void copy(T* to, const T* from, u32 count) {
    for (u32 i = threadIdx.x; i < count; i += NT) to[i] = from[i];
}

// An array, in shared memory if INSIDE; which one it is, is known when this is compiled, so that accesses are short.
template <typename T, bool INSIDE> struct Ref;
template <typename T> struct Ref<T, true> {
    u32 at;  // address within shared memory, of which the compiler knows nothing: else it would work it out anew each time
    INLINE T& operator[](u32 i) const { return ((T*)__cvta_shared_to_generic(at))[i]; }
};
template <typename T> struct Ref<T, false> {
    T* at;
    INLINE T& operator[](u32 i) const { return at[i]; }
};

// One player's share as a block sees it. The code is the same for both players, so that it stays in the caches.
struct Share {
#if SETS
    Ref<const Set, AT_set_0 >= 0> set;
    Ref<const Below, AT_below_0 >= 0> below;
    Ref<const u32, AT_above_0 >= 0> above;
#else
    Ref<const Item, AT_item_0 >= 0> item;
#endif
    Ref<const Row, AT_row_0 >= 0> row;
    Ref<const REAL, AT_value_0 >= 0> value;
    Ref<const COLUMN, AT_column_0 >= 0> column;
    Ref<const double, AT_tie_0 >= 0> tie;
    Ref<double, AT_regret_0 >= 0> regret;
    Ref<double, AT_average_0 >= 0> average;
    Ref<REAL, AT_sigma_0 >= 0> sigma;
    Ref<REAL, AT_x_0 >= 0> x;
    Ref<REAL, AT_g_0 >= 0> g;
    Ref<REAL, AT_v_0 >= 0> v;
    const u32* longs;
    Ref<const u32, true> level, d;  // the descriptor, and its levels
    REAL *cut, *trunk_g, *published;
    u32 levels, slots, slot0, rows, n_long, pushed, trunk_slots, cut_roots;
    bool trunk, has_cut;
};

#define AT(name, P) (P == 0 ? AT_##name##_0 : AT_##name##_1)

template <typename T> INLINE void put_address(Ref<T, true>& to, const void* inside) {
    asm volatile("mov.u32 %0, %1;" : "=r"(to.at) : "r"((u32)__cvta_generic_to_shared(inside)));
}
template <bool COPY, typename T, typename U>
INLINE void put_at(Ref<T, true>& to, int at, const U* from, u32 count) {
    put_address(to, memory + at);
    if (COPY) copy<U>((U*)(memory + at), from, count);
}
template <bool COPY, typename T, typename U> INLINE void put_at(Ref<T, false>& to, int, U* from, u32) { to.at = (T*)from; }

// Says where every array is, and with COPY brings those into shared memory that belong there.
template <int P, bool COPY> INLINE Share place(const Problem& q, const u32* d, u32 instance) {
    const Arrays& a = q.player[P];
    Share s;
    s.levels = d[N_LEVELS], s.slots = d[N_SLOTS], s.slot0 = d[SLOT0], s.rows = d[N_ROWS], s.n_long = d[N_LONG];
    s.trunk = d[IS_TRUNK], s.has_cut = CUT(P), s.pushed = AT(pushed, P), s.trunk_slots = TRUNK(P);
    s.cut_roots = CUT_ROOTS(P);
    const u32 i0 = d[INFOSET0], s0 = d[SLOT0], state = instance * q.stride_state[P];
    s.published = a.plan + instance * q.stride_plan[P];
    s.cut = a.cut + instance * q.stride_cut[P];
    s.trunk_g = a.trunk + instance * q.stride_trunk[P];
    s.longs = a.longs + 3 * d[LONG0];
    put_address(s.d, d), put_address(s.level, d + LEVEL0);
#if SETS
    put_at<COPY>(s.set, AT(set, P), a.set + i0 + instance * q.stride_set[P], d[N_INFOSETS]);
    put_at<COPY>(s.below, AT(below, P), a.below + s0 + blockIdx.x % NB + instance * q.stride_below[P], s.slots + 1);
    put_at<COPY>(s.above, AT(above, P), a.above + s0, s.slots);
#else
    put_at<COPY>(s.item, AT(item, P), a.item + 32 * d[ITEM0] + instance * q.stride_item[P], 32 * d[LEVEL0 + s.levels]);
#endif
    put_at<COPY>(s.row, AT(row, P), a.row + d[ROW0], s.rows);
    put_at<COPY>(s.value, AT(value, P), a.value + d[ENTRY0] + instance * q.stride_value[P], d[N_ENTRIES]);
    put_at<COPY>(s.column, AT(column, P), a.column + d[ENTRY0], d[N_ENTRIES]);
    put_at<COPY>(s.tie, AT(tie, P), a.tie + i0 + instance * q.stride_tie[P], d[N_INFOSETS]);
    put_at<COPY>(s.regret, AT(regret, P), a.regret + s0 + state, s.slots);
    put_at<COPY>(s.average, AT(average, P), a.average + s0 + state, s.slots);
    put_at<COPY>(s.sigma, AT(sigma, P), a.sigma + s0 + state, s.slots);
    put_at<COPY>(s.x, AT(x, P), s.published + s0, s.slots + 1);
    put_at<false>(s.g, AT(g, P), a.g + d[G0] + instance * q.stride_g[P], 0);
    put_at<false>(s.v, AT(v, P), a.v + d[V0] + instance * q.stride_v[P], 0);
    if (COPY && AT_x_0 >= 0 && threadIdx.x == 0) s.x[0] = 1;
    return s;
}

#define EITHER(name) s.name = second ? s1.name : s0.name
#define EITHER_AT(name) s.name.at = second ? s1.name.at : s0.name.at

// One of the two, without a jump.
INLINE Share either(bool second, const Share& s0, const Share& s1) {
    Share s;
#if SETS
    EITHER_AT(set), EITHER_AT(below), EITHER_AT(above);
#else
    EITHER_AT(item);
#endif
    EITHER_AT(row), EITHER_AT(value), EITHER_AT(column), EITHER_AT(tie), EITHER_AT(regret);
    EITHER_AT(average), EITHER_AT(sigma), EITHER_AT(x), EITHER_AT(g), EITHER_AT(v);
    EITHER_AT(level), EITHER_AT(d), EITHER(longs), EITHER(cut), EITHER(trunk_g), EITHER(published);
    EITHER(levels), EITHER(slots), EITHER(slot0), EITHER(rows), EITHER(n_long), EITHER(pushed), EITHER(trunk_slots), EITHER(cut_roots);
    EITHER(trunk), EITHER(has_cut);
    return s;
}

template <typename T> INLINE void take_back(T* to, const Ref<T, true>& from, u32 first, u32 count) {
    for (u32 i = threadIdx.x; i < count; i += NT) to[i] = from[first + i];
}
template <typename T> INLINE void take_back(T*, const Ref<T, false>&, u32, u32) {}

template <int P> INLINE void put_back(const Problem& q, const Share& s, u32 instance) {
    const Arrays& a = q.player[P];
    const u32 at = s.slot0 + instance * q.stride_state[P];
    take_back(a.regret + at, s.regret, 0, s.slots);
    take_back(a.average + at, s.average, 0, s.slots);
    take_back(a.sigma + at, s.sigma, 0, s.slots);
    take_back(s.published + s.slot0 + 1, s.x, 1, s.slots);
}

// A sequence's plan, wherever it was made. Not through the first-level cache, which does not see other blocks' writes.
INLINE REAL plan_of(const Share& s, u32 sequence) {
#if REGIME == ONE
    return s.x[sequence];
#elif PUSH
    return ((REAL*)(memory + s.pushed))[sequence];
#else
    return __ldcg(s.published + sequence);
#endif
}

INLINE void publish(const Share& s, u32 k, REAL x) {
    s.x[k + 1] = x;
#if REGIME != ONE
#if PUSH
    const u32 here = (u32)__cvta_generic_to_shared(memory + s.pushed) + (u32)sizeof(REAL) * (s.slot0 + k + 1);
#pragma unroll
    for (u32 rank = 0; rank < NB; ++rank) {
        u32 there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
        store_far(there, x);
    }
#else
    if constexpr (AT_x_0 >= 0) __stcg(s.published + s.slot0 + k + 1, x);
#endif
#endif
}
