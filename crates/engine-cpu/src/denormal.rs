//! Denormal numbers as zeros, where a session asks for that: many processors take a hundred times longer to compute with them.
//!
//! DENORMAL-1: the mode is that of a run. Whoever computes for it sets the mode of its thread: the thread that submits it until the run
//! is over, a helper for each piece of work. A thread's own mode comes back when the run ends.

use std::marker::PhantomData;

/// Whether this processor can compute so.
pub fn is_supported() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// The register that says how a thread rounds, and its bits for "results that are denormal are zero" and "so are operands".
#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    pub(super) const FLUSH: u64 = 1 << 15 | 1 << 6;

    pub(super) fn read() -> u64 {
        let mut word = 0u32;
        // SAFETY: stores the register to the place given.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut word, options(nostack, preserves_flags)) };
        word as u64
    }

    pub(super) fn write(word: u64) {
        let word = word as u32;
        // SAFETY: the word was read from the register but for the bits of FLUSH, which change the values of denormal numbers alone:
        // nothing of Rust's relies on them, and what the compiler computed before counts them as numbers, as it may.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &word, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub(super) const FLUSH: u64 = 1 << 24;

    pub(super) fn read() -> u64 {
        let word: u64;
        // SAFETY: reads a register that every thread may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: u64) {
        // SAFETY: the word was read from the register but for the bit of FLUSH, which changes the values of denormal numbers alone.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nomem, nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub(super) const FLUSH: u64 = 0;

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn write(_: u64) {}
}

/// Whether this thread takes denormal numbers for zeros.
#[inline]
pub fn is_flushed() -> bool {
    control::FLUSH != 0 && control::read() & control::FLUSH == control::FLUSH
}

/// Says whether this thread is to. Costs a look where nothing changes.
#[inline]
pub(crate) fn set_flushed(flushed: bool) {
    let before = control::read();
    let after = if flushed { before | control::FLUSH } else { before & !control::FLUSH };
    if after != before {
        control::write(after);
    }
}

/// While it lives its thread is in a mode; afterwards in the one it was in.
pub(crate) struct Mode {
    before: u64,
    /// It is the thread's.
    thread: PhantomData<*const ()>,
}

impl Mode {
    pub(crate) fn enter(flushed: bool) -> Mode {
        let before = control::read();
        set_flushed(flushed);
        Mode { before, thread: PhantomData }
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        if control::read() & control::FLUSH != self.before & control::FLUSH {
            control::write(control::read() & !control::FLUSH | self.before & control::FLUSH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_a_thread_comes_back() {
        assert!(!is_flushed());
        let tiny = std::hint::black_box(f32::MIN_POSITIVE);
        let halved = || std::hint::black_box(tiny) * std::hint::black_box(0.5);
        assert!(halved() != 0.0);
        {
            let _outer = Mode::enter(true);
            assert_eq!(is_flushed(), is_supported());
            assert_eq!(halved() == 0.0, is_supported());
            {
                let _inner = Mode::enter(false);
                assert!(!is_flushed() && halved() != 0.0);
            }
            assert_eq!(is_flushed(), is_supported());
        }
        assert!(!is_flushed() && halved() != 0.0);
    }
}
