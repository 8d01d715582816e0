"""The head of every generated C++ file: types, vector math, and the `m_...` functions that the rows of `ops.py` name.

Plain C++17 for GCC and Clang, no PyTorch headers.  With glibc >= 2.35 on x86-64 the declarations below promise the
vectoriser that vector versions of log, sin, pow ... exist (libmvec); elsewhere the same code is compiled, slower.
Taught in chapter 11.
"""

from .cpp_stream import SEND

# Functions of one and of two numbers that libmvec has since glibc 2.35, and those that compilers know.
_VECTOR = "exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh asinh acosh atanh erfc".split()
_VECTOR_TWO = "pow atan2 hypot".split()
_BUILTIN = "floor ceil trunc round=rint sqrt lgamma".split()


def _declare(name, names="x", builtin="", types=("float", "double")):
    """`m_name` for these types: a function of the C library, whose vector version is promised, or a builtin."""
    for kind in types:
        function = (f"__builtin_{builtin}" if builtin else name) + ("f" if kind == "float" else "")
        if not builtin:
            yield f'M_SIMD extern "C" {kind} {function}({", ".join(kind for _ in names)}) noexcept;'
        takes = ", ".join(f"{kind} {each}" for each in names)
        yield f"M_INLINE {kind} m_{name}({takes}) {{ return {function}({', '.join(names)}); }}"


def _declarations():
    made = [*map(_declare, _VECTOR), *(_declare(name, "xy") for name in _VECTOR_TWO)]
    made += [_declare(name, builtin=called or name) for name, _, called in (each.partition("=") for each in _BUILTIN)]
    made.append(_declare("copysign", "xy", "copysign"))
    made += [_declare(name, types=("double",)) for name in ("exp", "erf", "tanh")]  # in float these are our own, below
    return "\n".join(line for lines in made for line in lines)


_HEAD = r"""
#include <cstdint>
#define M_INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35)
#define M_SIMD _Pragma("omp declare simd notinbranch")
#endif
#endif
#ifndef M_SIMD
#define M_SIMD
#endif
// Of choices that depend on each other GCC makes jumps, before the vectoriser sees them: up to 50 times as slow.
#if defined(__GNUC__) && !defined(__clang__)
#define M_NO_JUMPS \
  __attribute__((optimize("no-tree-pre", "no-tree-vrp", "no-tree-dominator-opts", "no-thread-jumps")))
#else
#define M_NO_JUMPS
#endif

// --- a row of a length that is known at run time only: each thread keeps one for each `number`
template <typename T, int number> static T* m_scratch(int64_t length) {
  static thread_local struct Row { T* data = nullptr; int64_t length = 0; ~Row() { delete[] data; } } row;
  if (row.length < length) {
    delete[] row.data;
    row.data = new T[length];
    row.length = length;
  }
  return row.data;
}

// --- types: half types are stored in 16 bits and computed in float
struct bfloat16 { uint16_t bits; };
M_INLINE float m_bits_float(uint32_t u) { float f; __builtin_memcpy(&f, &u, 4); return f; }
M_INLINE uint32_t m_float_bits(float f) { uint32_t u; __builtin_memcpy(&u, &f, 4); return u; }
M_INLINE float m_load(bfloat16 v) { return m_bits_float((uint32_t)v.bits << 16); }
M_INLINE uint16_t m_round_bfloat16(float f) {
  const uint32_t u = m_float_bits(f);
  return f != f ? 0x7fc0 : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
#ifdef __FLT16_MAX__
typedef _Float16 half;
M_INLINE float m_load(half v) { return (float)v; }
M_INLINE half m_round_half(float f) { return (half)f; }
#else
struct half { uint16_t bits; };
M_INLINE float m_load(half v) {
  const uint32_t sign = (uint32_t)(v.bits & 0x8000) << 16, rest = v.bits & 0x7fff;
  const float tiny = (float)rest * 5.9604644775390625e-8f;  // subnormal: rest * 2^-24
  const uint32_t normal = (rest << 13) + (rest >= 0x7c00 ? 0x70000000u : 0x38000000u);
  return m_bits_float(sign | (rest < 0x400 ? m_float_bits(tiny) : normal));
}
M_INLINE half m_round_half(float f) {
  const uint32_t u = m_float_bits(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  uint32_t r;
  if (a > 0x7f800000) r = 0x7e00;
  else if (a >= 0x477ff000) r = 0x7c00;
  else if (a < 0x38800000) r = (uint32_t)__builtin_rintf(m_bits_float(a) * 16777216.0f);
  else r = (a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13;
  return half{(uint16_t)(sign | r)};
}
#endif
template <typename T> M_INLINE T m_load(T v) { return v; }

// m_to<T>: round a computed value to how T is stored;  m_cast<To, From>: Tensor.to
template <typename T> struct m_store { template <typename V> M_INLINE T to(V v) { return (T)v; } };
template <> struct m_store<bool> { template <typename V> M_INLINE bool to(V v) { return v != 0; } };
template <> struct m_store<bfloat16> {
  template <typename V> M_INLINE bfloat16 to(V v) { return bfloat16{m_round_bfloat16((float)v)}; }
};
template <> struct m_store<half> { template <typename V> M_INLINE half to(V v) { return m_round_half((float)v); } };
template <> struct m_store<uint8_t> {
  template <typename V> M_INLINE uint8_t to(V v) { return (uint8_t)(int64_t)v; }
};
template <typename T> struct m_is_bool { static constexpr bool value = false; };
template <> struct m_is_bool<bool> { static constexpr bool value = true; };
// GCC would make one `trunc` of (float)(int)x, wrong beyond the int's range and in the sign of zero; it cannot know
// what a global holds.  No tensor has a char16_t, so that the global is not loaded again behind a store.
__attribute__((visibility("hidden"))) char16_t m_zero = 0;
template <typename To, typename From> M_INLINE auto m_cast(decltype(m_load(From())) v) {
  using Result = decltype(m_load(To()));
  if constexpr (m_is_bool<From>::value) return v ? Result(1) : Result(0);  // GCC does not vectorise (float)bool
  else if constexpr (Result(0.5) == 0 && decltype(v)(0.5) != 0) return Result(m_store<To>::to(v) ^ m_zero);
  else return m_load(m_store<To>::to(v));
}
template <typename To, typename From> M_INLINE To m_bitcast(From v) {
  To t;
  __builtin_memcpy(&t, &v, sizeof(t));
  return t;
}
template <typename T> struct m_is_float { static constexpr bool value = false; };
template <> struct m_is_float<float> { static constexpr bool value = true; };
template <> struct m_is_float<double> { static constexpr bool value = true; };
template <typename T> M_INLINE T m_inf() { return (T)__builtin_inf(); }
template <typename T> M_INLINE T m_nan() { return (T)__builtin_nan(""); }
template <typename T> M_INLINE T m_min(T a, T b) { return a < b ? a : b; }
M_INLINE int64_t m_within(int64_t edge, int64_t size) { return edge < 0 ? 0 : m_min(edge, size); }
"""

_TAIL = r"""
// --- exp in float, for vectors of any width, without branches: infinities, NaN and masked -inf at one speed
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
M_INLINE float m_mad(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
M_INLINE float m_mad(float a, float b, float c) { return a * b + c; }
#endif
// e^x is 2^n * e^r with |r| <= ln(2)/2, and e^r is 1 and a polynomial.  Adding 1.5 * 2^23 rounds to an integer, which
// then stands in the lowest bits of z.
M_INLINE float m_exp_rest(float x, float& z) {
  z = m_mad(x, 1.44269504088896341f, 12582912.0f);
  const float n = z - 12582912.0f, r = m_mad(n, -1.428606765330187e-06f, m_mad(n, -0.693145751953125f, x));
  float p = m_mad(r, 1.381417748e-03f, 8.368919288e-03f);
  p = m_mad(p, r, 4.166840776e-02f);
  p = m_mad(p, r, 1.666651896e-01f);
  p = m_mad(p, r, 4.999999333e-01f);
  return m_mad(p, r * r, r);
}
M_INLINE float m_power_of_two(int32_t n) { return m_bits_float((uint32_t)(n + 127) << 23); }
M_INLINE float m_exp(float x) {  // zero where it would be subnormal: for sums that are 1 at least
  float z, p = m_exp_rest(x, z) + 1.0f;
  const float y = m_bits_float(m_float_bits(p) + (m_float_bits(z) << 23));
  const float most = x > 88.7228317f ? m_inf<float>() : y;  // GCC would compare five times in one
  return x < -87.3365f ? 0.0f : most;
}
// 2^n as two factors, without choices: an Intel processor stops for a subnormal number in any lane, used or not.
M_INLINE float m_exp_tiny(float x) {
  const float least = -104.0f > x ? -104.0f : x;
  float z, p = m_exp_rest(89.0f < least ? 89.0f : least, z) + 1.0f;
  const int32_t n = (int32_t)(m_float_bits(z) - 0x4b400000), half = n >> 1;
  return p * m_power_of_two(half) * m_power_of_two(n - half);
}
// (e^2a - 1) / (e^2a + 1), without a 1 that would swallow a small a
M_INLINE float m_tanh(float x) {
  const float a = __builtin_fabsf(x);
  float z, p = m_exp_rest(10.0f < a ? 20.0f : a + a, z);
  const float power = m_power_of_two((int32_t)(m_float_bits(z) - 0x4b400000)), e = m_mad(power, p, power - 1.0f);
  return __builtin_copysignf(e / (e + 2.0f), x);
}
M_INLINE double m_exp_tiny(double x) { return exp(x); }
// --- erf in float, in 1.6 units of the last place: x * p(x^2), and 1 - 2^q(|x|) further out; fitted to both ranges
M_INLINE float m_erf(float x) {
  const float a = __builtin_fabsf(x), t = a > 4.0f ? 4.0f : a, s = x * x;
  float p = m_mad(s, -0.000595375953707844f, 0.0049859448336064816f);
  p = m_mad(p, s, -0.026761723682284355f);
  p = m_mad(p, s, 0.11281682550907135f);
  p = m_mad(p, s, -0.3761247992515564f);
  p = m_mad(p, s, 0.12837915122509003f);
  float q = m_mad(t, 0.0002810048754326999f, -0.0043739923276007175f);
  q = m_mad(q, t, 0.03200097754597664f);
  q = m_mad(q, t, -0.1498049944639206f);
  q = m_mad(q, t, -0.9194157123565674f);
  q = m_mad(q, t, -1.6267989873886108f);
  q = m_mad(q, t, -0.00030485863680951297f);
  const float z = q + 12582912.0f, r = q - (z - 12582912.0f);
  float e = m_mad(r, 0.001326472731307149f, 0.009671512991189957f);
  e = m_mad(e, r, 0.05550733581185341f);
  e = m_mad(e, r, 0.24022242426872253f);
  e = m_mad(e, r, 0.6931470036506653f);
  e = m_mad(e, r, 1.0f);
  const float rest = m_bits_float(m_float_bits(e) + (m_float_bits(z) << 23));
  return a > 0.93f ? __builtin_copysignf(1.0f - rest, x) : m_mad(p, x, x);
}

// --- arithmetic with ATen's rules
template <typename T> M_INLINE T m_abs(T a) {
  if constexpr (sizeof(T) == 4 && m_is_float<T>::value) return __builtin_fabsf(a);
  else if constexpr (m_is_float<T>::value) return __builtin_fabs(a);
  else return a < 0 ? (T)-a : a;
}
template <typename T> M_INLINE T m_maximum(T a, T b) { return (b > a || b != b) ? b : a; }
template <typename T> M_INLINE T m_minimum(T a, T b) { return (b < a || b != b) ? b : a; }
template <typename T> M_INLINE T m_fmax(T a, T b) { return (b > a || a != a) ? b : a; }
template <typename T> M_INLINE T m_fmin(T a, T b) { return (b < a || a != a) ? b : a; }
template <typename T> M_INLINE T m_sign(T a) { return (T)((T(0) < a) - (a < T(0))); }
template <typename T> M_INLINE bool m_isnan(T a) { return a != a; }
template <typename T> M_INLINE bool m_isinf(T a) {
  return m_is_float<T>::value && (a == m_inf<T>() || a == -m_inf<T>());
}
template <typename T> M_INLINE bool m_signbit(T a) {
  if constexpr (m_is_float<T>::value) return __builtin_copysign(1.0, (double)a) < 0;
  else return a < 0;
}
template <typename T> M_INLINE T m_not(T a) { return (T)~a; }
M_INLINE bool m_not(bool a) { return !a; }
template <typename T> M_INLINE T m_shl(T a, T b) {
  return b < 0 || b >= (T)(8 * sizeof(T)) ? T(0) : (T)((uint64_t)a << b);
}
template <typename T> M_INLINE T m_shr(T a, T b) {
  const T most = (T)(8 * sizeof(T) - (T(-1) < T(0)));
  return b >= 0 && b < most ? (T)(a >> b) : (T(-1) < T(0) ? (T)(a >> (most - 1) >> 1) : T(0));
}
template <typename S, typename T> M_INLINE T m_nextafter(T a, T b) {
  if constexpr (sizeof(S) == 8) return __builtin_nextafter(a, b);
  else if constexpr (sizeof(S) == 4) return __builtin_nextafterf(a, b);
  else {  // one step of the 16-bit pattern
    S s = m_store<S>::to(a);
    uint16_t bits = m_bitcast<uint16_t>(s);
    bits = a == 0 ? (b < 0 ? 0x8001 : 1) : (uint16_t)(bits + ((b > a) == (a > 0) ? 1 : -1));
    return a != a || b != b ? a + b : a == b ? b : m_load(m_bitcast<S>(bits));
  }
}
M_INLINE float m_fmod_of(float a, float b) { return __builtin_fmodf(a, b); }
M_INLINE double m_fmod_of(double a, double b) { return __builtin_fmod(a, b); }
template <typename T> M_INLINE T m_divisor(T b, int& err) { err |= b == 0 ? 2 : 0; return b == 0 ? T(1) : b; }
template <typename T> M_INLINE bool m_minus_one(T b) { return (T)-1 < T(0) && b == (T)-1; }
template <typename T> M_INLINE T m_truncdiv(T a, T b, int& err) {
  if constexpr (m_is_float<T>::value) return m_trunc(a / b);
  else { b = m_divisor(b, err); return m_minus_one(b) ? (T)(0 - a) : (T)(a / b); }
}
template <typename T> M_INLINE T m_fmod(T a, T b, int& err) {
  if constexpr (m_is_float<T>::value) return m_fmod_of(a, b);
  else { b = m_divisor(b, err); return m_minus_one(b) ? T(0) : (T)(a % b); }
}
template <typename T> M_INLINE T m_remainder(T a, T b, int& err) {
  const T r = m_fmod(a, b, err);
  return r != 0 && (b < 0) != (r < 0) ? (T)(r + b) : r;
}
template <typename T> M_INLINE T m_floordiv(T a, T b, int& err) {
  if constexpr (m_is_float<T>::value) {
    if (b == 0) return a / b;
    const T r = m_fmod_of(a, b), q = (a - r) / b - (r != 0 && (b < 0) != (r < 0) ? T(1) : T(0)), f = m_floor(q);
    return q == 0 ? m_copysign(T(0), a / b) : q - f > T(0.5) ? f + T(1) : f;
  } else {
    const T q = m_truncdiv(a, b, err);
    return b != 0 && (T)(q * b) != a && (a < 0) != (b < 0) ? (T)(q - 1) : q;
  }
}
template <typename T> M_INLINE T m_pow(T a, T b) {
  if (b < 0) return a == T(1) ? T(1) : a == (T)-1 ? (b % 2 ? (T)-1 : T(1)) : T(0);
  T result = 1;
  for (; b; b = (T)(b >> 1), a = (T)(a * a)) if (b & 1) result = (T)(result * a);
  return result;
}
static double m_digamma(double x) {
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  double result = 0;
  if (x < 0) {
    if (x == __builtin_floor(x)) return __builtin_nan("");
    const double part = x - __builtin_trunc(x);  // the tangent's period is 1
    result = -M_PI_VALUE / __builtin_tan(M_PI_VALUE * part);
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double y = 1 / (x * x);
  const double tail = 1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12));
  const double series = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * tail)));
  return result + __builtin_log(x) - 0.5 / x - series;
}
static float m_digamma(float x) { return (float)m_digamma((double)x); }
static double m_erfinv(double x) {
  if (!(x > -1 && x < 1)) return x == 1 ? __builtin_inf() : x == -1 ? -__builtin_inf() : __builtin_nan("");
  // a first guess (Winitzki's away from zero), then Halley's steps on erf
  const double l = __builtin_log1p(-x * x), t = 4.330746750799873 + l / 2;
  const bool small = __builtin_fabs(x) < 0.5;
  const double guess = __builtin_sqrt(__builtin_sqrt(t * t - l / 0.147) - t);
  double y = small ? x * 0.886226925452758 : __builtin_copysign(guess, x);
  for (int k = 0; k < 4; ++k) {
    const double f = small ? __builtin_erf(y) - x : x > 0 ? (1 - x) - __builtin_erfc(y) : __builtin_erfc(-y) - (1 + x);
    const double step = f / (1.1283791670955126 * __builtin_exp(-y * y));
    y -= step / (1 + y * step);
  }
  return y;
}
static float m_erfinv(float x) { return (float)m_erfinv((double)x); }

// --- reductions: a NaN wins, the first of several
template <int size> struct m_unsigned;
template <> struct m_unsigned<1> { typedef uint8_t type; };
template <> struct m_unsigned<2> { typedef uint16_t type; };
template <> struct m_unsigned<4> { typedef uint32_t type; };
template <> struct m_unsigned<8> { typedef uint64_t type; };
template <typename T> M_INLINE T m_pick(bool which, T a, T b) {  // of `?:` in a row GCC makes jumps
  typedef typename m_unsigned<sizeof(T)>::type U;
  const U mask = (U)0 - (U)which;
  return m_bitcast<T>((U)((m_bitcast<U>(a) & mask) | (m_bitcast<U>(b) & ~mask)));
}
template <typename T> M_INLINE bool m_above(T a, T than) { return !(a <= than) & (than == than); }
template <typename T> M_INLINE bool m_below(T a, T than) { return !(a >= than) & (than == than); }
template <typename T> M_INLINE bool m_ties(T a, T extreme) { return (a == extreme) | (a != a); }
// exp(x - peak) becomes exp(x - top) by this factor; a peak of -inf has seen nothing else
M_INLINE double m_shrunk(double peak, double top) { return peak == -m_inf<double>() ? 0.0 : exp(peak - top); }
template <typename T> M_INLINE T m_peak(T peak) { return peak == -m_inf<T>() ? T(0) : peak; }
#pragma omp declare reduction(m_max : float, double : omp_out = m_maximum(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
#pragma omp declare reduction(m_min : float, double : omp_out = m_minimum(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)

// --- a tile of a matrix, turned: out[i * width + j] = in[j * step + i] for j < rows, i < columns
#ifdef __clang__
#define M_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define M_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, V{__VA_ARGS__})
#endif
#ifdef __AVX512F__
#define M_LANES(T) (sizeof(T) == 4 ? 16 : 8)  // whole cache lines
#else
#define M_LANES(T) 8
#endif
template <int lanes, typename V> M_INLINE void m_weave(V a, V b, V& low, V& high) {  // a0 b0 a1 b1 ..., in two halves
  if constexpr (lanes == 16) {
    low = M_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    high = M_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  } else {
    low = M_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    high = M_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  }
}
template <int width, typename T, int lanes = M_LANES(T)>
static void m_turn(const T* in, int64_t step, int64_t rows, int64_t columns, T* out) {
  typedef typename m_unsigned<sizeof(T)>::type V __attribute__((vector_size(lanes * sizeof(T))));
  for (int64_t j = 0; j < rows; j += lanes)
    for (int64_t i = 0; i < columns; i += lanes) {
      if (j + lanes <= rows && i + lanes <= columns) {
        V r[lanes], s[lanes];
        for (int k = 0; k < lanes; ++k) __builtin_memcpy(&r[k], in + (j + k) * step + i, sizeof(V));
        for (int left = lanes; left > 1; left /= 2) {  // each turns the bits of (row, column), as one number, by one
          for (int k = 0; k < lanes / 2; ++k) m_weave<lanes>(r[k], r[k + lanes / 2], s[2 * k], s[2 * k + 1]);
          for (int k = 0; k < lanes; ++k) r[k] = s[k];
        }
        for (int k = 0; k < lanes; ++k) __builtin_memcpy(out + (i + k) * width + j, &r[k], sizeof(V));
      } else {
        for (int64_t y = j; y < j + lanes && y < rows; ++y)
          for (int64_t x = i; x < i + lanes && x < columns; ++x) out[x * width + y] = in[y * step + x];
      }
    }
}

// --- running sums: x[k] = total + x[0] + ... + x[k], and the new total
template <int size, typename T> static void m_scan(T* x, T& total) {
  typedef typename m_unsigned<sizeof(T)>::type V __attribute__((vector_size(8 * sizeof(T))));
  typedef T Row __attribute__((vector_size(8 * sizeof(T))));
  const Row zero = {};
  Row before = zero + total;
  for (int k = 0; k < size; k += 8) {
    Row r;
    __builtin_memcpy(&r, x + k, sizeof(r));
    r += M_SHUFFLE(zero, r, 0, 8, 9, 10, 11, 12, 13, 14);
    r += M_SHUFFLE(zero, r, 0, 1, 8, 9, 10, 11, 12, 13);
    r += M_SHUFFLE(zero, r, 0, 1, 2, 3, 8, 9, 10, 11);
    const Row sums = r + before;
    __builtin_memcpy(x + k, &sums, sizeof(sums));
    before += M_SHUFFLE(r, r, 7, 7, 7, 7, 7, 7, 7, 7);
  }
  total = before[0];
}

// --- addresses
M_INLINE int64_t m_floor_index(int64_t a, int64_t b) { return a / b - (a % b < 0); }
M_INLINE int64_t m_mod_index(int64_t a, int64_t b) { const int64_t r = a % b; return r < 0 ? r + b : r; }
// GCC 12 makes -1 of a `true` that becomes an address in a vector loop: it is not to know that this was one.
M_INLINE int64_t m_opaque(int64_t i) {
  asm("" : "+r"(i));
  return i;
}
M_INLINE int64_t m_index(int64_t i, int64_t size, bool wrap, bool used, int& err) {
  i = wrap && i < 0 ? i + size : i;
  const bool bad = i < 0 || i >= size;
  err |= used && bad ? 1 : 0;
  return bad ? 0 : i;
}
"""

PRELUDE = _HEAD + _declarations() + SEND + _TAIL.replace("M_PI_VALUE", "3.14159265358979323846")
