/* Accumulates on types that Rust lacks (src/reduce/foreign.rs): one element at a time, at any
 * alignment. */
#include "host.h"

#include <complex.h>
#include <string.h>

/* IEEE binary128, if the compiler has it: Fortran's REAL(16). */
#if __LDBL_MANT_DIG__ == 113
typedef long double quad;
typedef long double _Complex complex_quad;
#define QUAD
#elif defined(__SIZEOF_FLOAT128__)
typedef __float128 quad;
typedef _Complex float __attribute__((mode(TC))) complex_quad;
#define QUAD
#endif

/* IEEE binary16: Fortran's REAL(2). */
#ifdef __FLT16_MAX__
typedef _Float16 half;
struct complex_half {
    half re, im;
};
#endif

/* Without the padding behind the index. */
struct __attribute__((packed)) long_double_int { long double value; int index; };
struct two_float { float value, index; };
struct two_double { double value, index; };

/* `old` is the target's element. `new` is the operand, and then the result for the target. */
#define COMBINES(name, type, ...)                                                                                           \
    static void name(int op, void *target, const void *operand) {                                                           \
        type old, new;                                                                                                      \
        memcpy(&old, target, sizeof old), memcpy(&new, operand, sizeof new);                                                \
        switch (op) { __VA_ARGS__ }                                                                                           \
        memcpy(target, &new, sizeof new);                                                                                   \
    }

/* As for the floats that Rust has: NaN wins, the target's of two NaNs, and -0 is smaller than 0. */
#define FLOAT(name, type)                                                                                                   \
    COMBINES(name, type,                                                                                                    \
             case OP_MAX: if (old > new || old != old || (old == new && __builtin_signbit(new))) new = old; break;          \
             case OP_MIN: if (old < new || old != old || (old == new && __builtin_signbit(old))) new = old; break;          \
             case OP_SUM: new = old + new; break;                                                                           \
             case OP_PROD: new = old * new; break;)
#define COMPLEX(name, type)                                                                                                 \
    COMBINES(name, type, case OP_SUM: new = old + new; break; case OP_PROD: new = old * new; break;)
#define LOGICAL(name, type)                                                                                                 \
    COMBINES(name, type,                                                                                                    \
             case OP_LAND: new = old && new; break;                                                                         \
             case OP_LOR: new = old || new; break;                                                                          \
             case OP_LXOR: new = !old != !new; break;)
/* For equal values the smaller index wins, and for equal indices the target's pair (MPI-4.1 section
 * 6.9.4). NaN wins. */
#define BEATS(a, b, than) (a.value than b.value || (a.value != a.value && b.value == b.value))
#define TAKE(pair, other) pair.value = other.value, pair.index = other.index
#define PAIR(name, type)                                                                                                    \
    COMBINES(name, type,                                                                                                    \
             case OP_MAXLOC:                                                                                                \
                 if (BEATS(new, old, >) || (!BEATS(old, new, >) && new.index < old.index)) TAKE(old, new);                  \
                 new = old;                                                                                                 \
                 break;                                                                                                     \
             case OP_MINLOC:                                                                                                \
                 if (BEATS(new, old, <) || (!BEATS(old, new, <) && new.index < old.index)) TAKE(old, new);                  \
                 new = old;                                                                                                 \
                 break;)

FLOAT(long_double, long double)
COMPLEX(complex_long, long double _Complex)
PAIR(long_double_int, struct long_double_int)
#ifdef QUAD
FLOAT(float128, quad)
COMPLEX(complex128, complex_quad)
#endif
#ifdef __FLT16_MAX__
FLOAT(float16, half)
COMBINES(complex16, struct complex_half,
         case OP_SUM: new.re = old.re + new.re, new.im = old.im + new.im; break;
         case OP_PROD: {
             float _Complex product = CMPLXF(old.re, old.im) * CMPLXF(new.re, new.im);
             new.re = (half)crealf(product), new.im = (half)cimagf(product);
             break;
         })
#endif
#ifdef __SIZEOF_INT128__
LOGICAL(logical128, unsigned __int128)
COMBINES(int128, unsigned __int128,
         case OP_MAX: if ((__int128)old > (__int128)new) new = old; break;
         case OP_MIN: if ((__int128)old < (__int128)new) new = old; break;
         case OP_SUM: new = old + new; break;
         case OP_PROD: new = old * new; break;
         case OP_LAND: new = old && new; break;
         case OP_LOR: new = old || new; break;
         case OP_LXOR: new = !old != !new; break;
         case OP_BAND: new = old & new; break;
         case OP_BOR: new = old | new; break;
         case OP_BXOR: new = old ^ new; break;)
#endif
LOGICAL(logical16, unsigned short)
LOGICAL(logical32, unsigned int)
LOGICAL(logical64, unsigned long long)
PAIR(two_float, struct two_float)
PAIR(two_double, struct two_double)

/* In the order of `enum foreign`; 0 for types that the compiler lacks. */
static void (*const FUNCTIONS[FOREIGN])(int op, void *target, const void *operand) = {
    [LONG_DOUBLE] = sizeof(long double) == 16 ? long_double : 0,
    [COMPLEX_LONG] = sizeof(long double) == 16 ? complex_long : 0,
    [LONG_DOUBLE_INT] = sizeof(struct long_double_int) == 20 ? long_double_int : 0,
#ifdef QUAD
    [FLOAT128] = float128,
    [COMPLEX128] = complex128,
#endif
#ifdef __FLT16_MAX__
    [FLOAT16] = float16,
    [COMPLEX16] = complex16,
#endif
#ifdef __SIZEOF_INT128__
    [INT128] = int128,
    [LOGICAL128] = logical128,
#endif
    [LOGICAL16] = logical16,
    [LOGICAL32] = logical32,
    [LOGICAL64] = logical64,
    [TWO_FLOAT] = two_float,
    [TWO_DOUBLE] = two_double,
};

/* Whether the compiler has a type. */
int host_has_foreign(int type) { return FUNCTIONS[type] != 0; }

/* Stores in `target` the result of `op` on `target` and `operand`, one element each. The compiler
 * has the type, and `op` is defined on it. */
void host_combine(int type, int op, void *target, const void *operand) { FUNCTIONS[type](op, target, operand); }
