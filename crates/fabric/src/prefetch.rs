//! Host prefetches: a cache line is requested before the simulator needs it.

/// Lets the host fetch `value` from its memory while it continues, without any other effect.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 host has the instruction (it is part of SSE), which has no effect
        // visible to the program for any address; this address is that of a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
