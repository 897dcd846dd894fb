/* What Python cannot say to a processor: store past the caches, and write back or drop a cache line.
   Sizes are multiples of 64 bytes and addresses are aligned to that, as mappings of devices are. */
#include <stddef.h>
#include <stdint.h>

#define LINE 64

#if defined(__x86_64__)
#include <emmintrin.h>

static void drop(const char *at, size_t size) {
    for (size_t i = 0; i < size; i += LINE)
        _mm_clflush(at + i);
    _mm_mfence();
}

void ballast_zero(char *at, size_t size) {
    const __m128i none = _mm_setzero_si128();
    for (size_t i = 0; i < size; i += sizeof none)
        _mm_stream_si128((__m128i *)(at + i), none);
    _mm_sfence();
    drop(at, size); /* a line that was dirty before must not be written back over the zeros later */
}

#elif defined(__aarch64__)

static void drop(const char *at, size_t size) {
    for (size_t i = 0; i < size; i += LINE)
        __asm__ volatile("dc civac, %0" ::"r"(at + i) : "memory");
    __asm__ volatile("dsb sy" ::: "memory");
}

void ballast_zero(char *at, size_t size) {
    volatile uint64_t *word = (volatile uint64_t *)at;
    for (size_t i = 0; i < size / sizeof *word; i++)
        word[i] = 0;
    drop(at, size);
}

#else
#error "no cache line write-back is known for this processor"
#endif

/* Offset of the first byte that is not zero, as the device has it; size if there is none. */
size_t ballast_first_nonzero(const char *at, size_t size) {
    const volatile uint64_t *word = (const volatile uint64_t *)at;
    drop(at, size);
    for (size_t i = 0; i < size / sizeof *word; i++)
        if (word[i]) {
            size_t byte = i * sizeof *word;
            while (!((const volatile char *)at)[byte])
                byte++;
            return byte;
        }
    return size;
}
