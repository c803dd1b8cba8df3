//! The innermost loops of the matrix product: a tile of the result held in registers while `k` runs.
//!
//! MICROKERNEL-1: an element of a tile is `0`, then for each `p` in order `acc = a[p] * b[p] + acc` (fused where the
//! machine fuses), then added to what the result held when `accumulate` says so. Every tile size and every
//! way of reading the operands does exactly this.

/// A vector register of `Scalar`s and what the tiles do with it.
///
/// Methods are unsafe because they need the instruction set the implementor is named after.
pub(super) trait Vector: Copy {
    type Scalar: Copy;
    const WIDTH: usize;
    unsafe fn zero() -> Self;
    unsafe fn splat(x: Self::Scalar) -> Self;
    unsafe fn load(from: *const Self::Scalar) -> Self;
    /// The first `count` elements; zeros behind them.
    unsafe fn load_first(from: *const Self::Scalar, count: usize) -> Self;
    unsafe fn store(self, to: *mut Self::Scalar);
    unsafe fn store_first(self, to: *mut Self::Scalar, count: usize);
    /// `a * b + self`
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
}

/// What a tile works on. `a[i, p]` lies at `a + i * a_row + p * a_step`, `b[p, j]` at `b + p * b_step + j`,
/// `c[i, j]` at `c + i * c_row + j`.
#[derive(Clone, Copy)]
pub(super) struct Tile<T> {
    pub k: usize,
    pub a: *const T,
    pub a_row: isize,
    pub a_step: isize,
    pub b: *const T,
    pub b_step: isize,
    pub c: *mut T,
    pub c_row: isize,
    /// Columns of the tile: at most the kernel's vectors times their width, more than one vector fewer.
    pub columns: usize,
    pub accumulate: bool,
}

/// A tile of a fixed number of rows and vectors.
pub(super) type TileFn<T> = unsafe fn(&Tile<T>);

/// Steps from which a tile runs long enough to fetch its part of the result meanwhile.
const PREFETCH_FROM: usize = 64;

#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; any address will do.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// `UNIT` says that `a_row` is 1, which lets the rows be reached by constant offsets.
#[inline(always)]
unsafe fn tile<V: Vector, const ROWS: usize, const VECTORS: usize, const UNIT: bool>(t: &Tile<V::Scalar>) {
    // SAFETY: the caller passes operands that hold `k`, ROWS and `columns` elements at these strides; loads of the
    // last vector stop at `columns`.
    unsafe {
        let last = t.columns - (VECTORS - 1) * V::WIDTH;
        let mut sums = [[V::zero(); VECTORS]; ROWS];
        let (mut a, mut b) = (t.a, t.b);
        if t.k >= PREFETCH_FROM {
            for i in 0..ROWS {
                for j in 0..VECTORS {
                    prefetch(t.c.wrapping_offset(i as isize * t.c_row).wrapping_add(j * V::WIDTH));
                }
            }
        }
        macro_rules! steps {
            ($load_last:expr) => {
                for _ in 0..t.k {
                    let mut row_of_b = [V::zero(); VECTORS];
                    for j in 0..VECTORS - 1 {
                        row_of_b[j] = V::load(b.add(j * V::WIDTH));
                    }
                    row_of_b[VECTORS - 1] = $load_last(b.add((VECTORS - 1) * V::WIDTH));
                    for i in 0..ROWS {
                        let at = if UNIT { a.add(i) } else { a.offset(i as isize * t.a_row) };
                        let x = V::splat(*at);
                        for j in 0..VECTORS {
                            sums[i][j] = sums[i][j].add_product(x, row_of_b[j]);
                        }
                    }
                    a = a.wrapping_offset(t.a_step);
                    b = b.wrapping_offset(t.b_step);
                }
            };
        }
        if last == V::WIDTH {
            steps!(|p| V::load(p));
            for i in 0..ROWS {
                for j in 0..VECTORS {
                    let at = t.c.offset(i as isize * t.c_row).add(j * V::WIDTH);
                    let sum = if t.accumulate { V::load(at).add(sums[i][j]) } else { sums[i][j] };
                    sum.store(at);
                }
            }
        } else {
            steps!(|p| V::load_first(p, last));
            for i in 0..ROWS {
                for j in 0..VECTORS {
                    let at = t.c.offset(i as isize * t.c_row).add(j * V::WIDTH);
                    let count = if j == VECTORS - 1 { last } else { V::WIDTH };
                    let sum = if t.accumulate { V::load_first(at, count).add(sums[i][j]) } else { sums[i][j] };
                    sum.store_first(at, count);
                }
            }
        }
    }
}

/// The tiles of one instruction set for one element type.
pub(super) struct Kernels<T: 'static> {
    /// Elements of a vector.
    pub width: usize,
    /// `[rows - 1][vectors - 1]`, rows of `a` at any distance.
    pub strided: &'static [[TileFn<T>; 2]],
    /// The same for rows of `a` next to each other.
    pub unit: &'static [[TileFn<T>; 2]],
    /// `[rows - 1]`, eight vectors wide: for products with very few rows, which wait for `b` only.
    pub flat: &'static [TileFn<T>],
    /// Turns a block of rows into columns; see `pack`.
    pub transpose: super::pack::TransposeFn<T>,
    /// Fill panels of `a` and of `b` whose neighbours lie next to each other; see `pack`.
    pub copy: [super::pack::CopyFn<T>; 2],
}

/// Makes one instruction set's table. `$vector` implements [`Vector`] with the features enabled by `$feature`.
macro_rules! kernels {
    ($name:ident, $vector:ty, $scalar:ty, [$($feature:meta)?], [$($rows:literal)*], $transpose:expr) => {
        #[allow(clippy::undocumented_unsafe_blocks)]
        pub(super) mod $name {
            use super::*;
            // SAFETY: called through the table, which is handed out only where the features are there.
            $(#[$feature])?
            unsafe fn strided<const ROWS: usize, const VECTORS: usize>(t: &Tile<$scalar>) {
                unsafe { tile::<$vector, ROWS, VECTORS, false>(t) }
            }
            // SAFETY: as above.
            $(#[$feature])?
            unsafe fn unit<const ROWS: usize, const VECTORS: usize>(t: &Tile<$scalar>) {
                unsafe { tile::<$vector, ROWS, VECTORS, true>(t) }
            }
            // SAFETY: as above.
            $(#[$feature])?
            unsafe fn copy<const WIDTH: usize>(
                from: *const $scalar,
                along: isize,
                panels: usize,
                depth: usize,
                to: *mut $scalar,
            ) {
                unsafe { crate::kernels::pack::copy::<$scalar, WIDTH>(from, along, panels, depth, to) }
            }
            const ROWS: usize = [$($rows),*].len();
            pub(in super::super) static TABLE: Kernels<$scalar> = Kernels {
                width: <$vector as Vector>::WIDTH,
                strided: &[$([strided::<$rows, 1>, strided::<$rows, 2>]),*],
                unit: &[$([unit::<$rows, 1>, unit::<$rows, 2>]),*],
                flat: &[strided::<1, 8>],
                transpose: $transpose,
                copy: [copy::<ROWS>, copy::<{ 2 * <$vector as Vector>::WIDTH }>],
            };
        }
    };
}

/// Vectors without instruction-set extensions: what the compiler makes of arrays. On 64-bit Arm that is NEON.
#[derive(Clone, Copy)]
pub(super) struct Plain<T, const W: usize>([T; W]);

macro_rules! plain_vector {
    ($t:ty, $w:literal) => {
        impl Vector for Plain<$t, $w> {
            type Scalar = $t;
            const WIDTH: usize = $w;
            #[inline(always)]
            unsafe fn zero() -> Self {
                Plain([0.0; $w])
            }
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                Plain([x; $w])
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                // SAFETY: the caller's.
                Plain(unsafe { from.cast::<[$t; $w]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn load_first(from: *const $t, count: usize) -> Self {
                let mut out = [0.0; $w];
                for i in 0..count {
                    // SAFETY: the caller has `count` elements there.
                    out[i] = unsafe { *from.add(i) };
                }
                Plain(out)
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: the caller's.
                unsafe { to.cast::<[$t; $w]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn store_first(self, to: *mut $t, count: usize) {
                for i in 0..count {
                    // SAFETY: the caller has room for `count` elements.
                    unsafe { *to.add(i) = self.0[i] };
                }
            }
            #[inline(always)]
            unsafe fn add_product(mut self, a: Self, b: Self) -> Self {
                for i in 0..$w {
                    // Without a fused instruction `mul_add` is a library call.
                    self.0[i] = if cfg!(target_arch = "aarch64") {
                        a.0[i].mul_add(b.0[i], self.0[i])
                    } else {
                        a.0[i] * b.0[i] + self.0[i]
                    };
                }
                self
            }
            #[inline(always)]
            unsafe fn add(mut self, other: Self) -> Self {
                for i in 0..$w {
                    self.0[i] += other.0[i];
                }
                self
            }
        }
    };
}
plain_vector!(f32, 4);
plain_vector!(f64, 2);
kernels!(plain_f32, Plain<f32, 4>, f32, [], [1 2 3 4 5 6], super::super::pack::transpose_plain::<f32>);
kernels!(plain_f64, Plain<f64, 2>, f64, [], [1 2 3 4 5 6], super::super::pack::transpose_plain::<f64>);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    macro_rules! x86_vector {
        ($reg:ty, $t:ty, $w:literal, $zero:ident, $splat:ident, $load:ident, $store:ident, $fma:ident, $add:ident,
         |$from:ident, $count:ident| $load_first:expr, |$v:ident, $to:ident, $n:ident| $store_first:expr) => {
            impl Vector for $reg {
                type Scalar = $t;
                const WIDTH: usize = $w;
                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the features are there.
                    unsafe { $zero() }
                }
                #[inline(always)]
                unsafe fn splat(x: $t) -> Self {
                    // SAFETY: as above.
                    unsafe { $splat(x) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $t) -> Self {
                    // SAFETY: as above, and the caller's elements.
                    unsafe { $load(from) }
                }
                #[inline(always)]
                unsafe fn load_first($from: *const $t, $count: usize) -> Self {
                    // SAFETY: masked: elements past the count are not touched.
                    unsafe { $load_first }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $t) {
                    // SAFETY: as above.
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn store_first(self, $to: *mut $t, $n: usize) {
                    let $v = self;
                    // SAFETY: masked: elements past the count are not touched.
                    unsafe { $store_first }
                }
                #[inline(always)]
                unsafe fn add_product(self, a: Self, b: Self) -> Self {
                    // SAFETY: the features are there.
                    unsafe { $fma(a, b, self) }
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $add(self, other) }
                }
            }
        };
    }

    x86_vector!(
        __m512,
        f32,
        16,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps,
        _mm512_add_ps,
        |from, count| _mm512_maskz_loadu_ps(((1u32 << count) - 1) as u16, from),
        |v, to, count| _mm512_mask_storeu_ps(to, ((1u32 << count) - 1) as u16, v)
    );
    x86_vector!(
        __m512d,
        f64,
        8,
        _mm512_setzero_pd,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_fmadd_pd,
        _mm512_add_pd,
        |from, count| _mm512_maskz_loadu_pd(((1u32 << count) - 1) as u8, from),
        |v, to, count| _mm512_mask_storeu_pd(to, ((1u32 << count) - 1) as u8, v)
    );

    /// `MASK[8 - count..]` begins with `count` lanes that are set.
    static MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    static WIDE_MASK: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

    #[inline(always)]
    unsafe fn mask(count: usize) -> __m256i {
        // SAFETY: `count` is at most 8, so 8 entries follow.
        unsafe { _mm256_loadu_si256(MASK.as_ptr().add(8 - count).cast()) }
    }

    #[inline(always)]
    unsafe fn wide_mask(count: usize) -> __m256i {
        // SAFETY: `count` is at most 4, so 4 entries follow.
        unsafe { _mm256_loadu_si256(WIDE_MASK.as_ptr().add(4 - count).cast()) }
    }

    x86_vector!(
        __m256,
        f32,
        8,
        _mm256_setzero_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_fmadd_ps,
        _mm256_add_ps,
        |from, count| _mm256_maskload_ps(from, mask(count)),
        |v, to, count| _mm256_maskstore_ps(to, mask(count), v)
    );
    x86_vector!(
        __m256d,
        f64,
        4,
        _mm256_setzero_pd,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_fmadd_pd,
        _mm256_add_pd,
        |from, count| _mm256_maskload_pd(from, wide_mask(count)),
        |v, to, count| _mm256_maskstore_pd(to, wide_mask(count), v)
    );

    // 24 sums, 2 vectors of b and one element of a: 27 of 32 registers.
    kernels!(avx512_f32, __m512, f32, [target_feature(enable = "avx512f")], [1 2 3 4 5 6 7 8 9 10 11 12],
        super::super::super::pack::transpose_avx512_f32);
    kernels!(avx512_f64, __m512d, f64, [target_feature(enable = "avx512f")], [1 2 3 4 5 6 7 8 9 10 11 12],
        super::super::super::pack::transpose_avx512_f64);
    // 12 sums, 2 vectors of b and one element of a: 15 of 16 registers.
    kernels!(avx2_f32, __m256, f32, [target_feature(enable = "avx2,fma")], [1 2 3 4 5 6],
        super::super::super::pack::transpose_plain::<f32>);
    kernels!(avx2_f64, __m256d, f64, [target_feature(enable = "avx2,fma")], [1 2 3 4 5 6],
        super::super::super::pack::transpose_plain::<f64>);
}

/// The tables this machine can use, best first.
macro_rules! tables {
    ($name:ident, $t:ty, $avx512:ident, $avx2:ident, $plain:ident) => {
        pub(super) fn $name() -> Vec<&'static Kernels<$t>> {
            let mut out = Vec::new();
            #[cfg(target_arch = "x86_64")]
            {
                if std::arch::is_x86_feature_detected!("avx512f") {
                    out.push(&x86::$avx512::TABLE);
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    out.push(&x86::$avx2::TABLE);
                }
            }
            out.push(&$plain::TABLE);
            out
        }
    };
}
tables!(tables_f32, f32, avx512_f32, avx2_f32, plain_f32);
tables!(tables_f64, f64, avx512_f64, avx2_f64, plain_f64);
