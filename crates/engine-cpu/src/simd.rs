//! One loop, several instruction sets.
//!
//! A loop is written once as an `#[inline(always)]` function of plain Rust and instantiated inside a function for
//! each level; LLVM vectorises each instance for its level. The level is chosen once.
//!
//! SIMD-1: levels differ in speed only. Rust never contracts or reorders float arithmetic, and a fused multiply-add
//! that the code asks for is exact on every level, so the bits are the same.

use std::sync::OnceLock;

/// An instruction set that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)]
pub enum Level {
    /// What every processor of the architecture has; NEON on aarch64.
    Base,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
}

/// The level that loops are chosen for: the best this machine has, unless a test asked for another.
pub fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = testing::CHOSEN.get() {
        return level;
    }
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(detect)
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    use std::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma");
    if avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
        return Level::Avx512;
    }
    if avx2 { Level::Avx2 } else { Level::Base }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Base
}

/// Makes `fn $name<F: $loop_trait>() -> unsafe fn(…)`: the instance of `F::run` for this machine's level.
macro_rules! instantiate {
    ($(#[$doc:meta])* $vis:vis $name:ident, $loop_trait:path, ($($arg:ident : $ty:ty),*)) => {
        $(#[$doc])*
        $vis fn $name<F: $loop_trait>() -> unsafe fn($($ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            unsafe fn avx512<F: $loop_trait>($($arg: $ty),*) {
                // SAFETY: the caller keeps the promises of `F::run`.
                unsafe { F::run($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2<F: $loop_trait>($($arg: $ty),*) {
                // SAFETY: as above.
                unsafe { F::run($($arg),*) }
            }
            unsafe fn base<F: $loop_trait>($($arg: $ty),*) {
                // SAFETY: as above.
                unsafe { F::run($($arg),*) }
            }
            match $crate::simd::level() {
                $crate::simd::Level::Base => base::<F>,
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx2 => avx2::<F>,
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx512 => avx512::<F>,
                #[cfg(not(target_arch = "x86_64"))]
                _ => base::<F>,
            }
        }
    };
}
pub(crate) use instantiate;

#[cfg(test)]
pub mod testing {
    //! Choosing a level in tests.

    use std::cell::Cell;

    use super::Level;

    thread_local! {
        pub(super) static CHOSEN: Cell<Option<Level>> = const { Cell::new(None) };
    }

    /// The results of `f` for every level this machine has.
    pub fn at_every_level<T>(f: impl Fn() -> T) -> Vec<(Level, T)> {
        let best = super::detect();
        let levels = [Level::Base, Level::Avx2, Level::Avx512];
        let available = levels.into_iter().take_while(|&l| l as u8 <= best as u8);
        let run = |level| {
            CHOSEN.set(Some(level));
            let out = f();
            CHOSEN.set(None);
            (level, out)
        };
        available.map(run).collect()
    }
}
