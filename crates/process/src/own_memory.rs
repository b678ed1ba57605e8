//! Memory of this process that it has freed and the C library still holds.
//!
//! The invariant here: the bound is set before the process has a second thread, and a bound that the
//! user set in the environment stays.

/// The fewest and the most arenas; each holds its own freed memory.
const ARENAS: std::ops::RangeInclusive<usize> = 2..=16;

/// Bounds the number of arenas of the C library to one per processor.
///
/// The C library makes an arena for each new thread, up to eight per processor, and what is freed in
/// one arena is of no use to the others. A process with many threads that each allocate for a moment
/// then holds many times what it uses. Called first in `main`; a second call changes nothing. With
/// another C library than glibc nothing is bound.
pub fn bound_arenas() {
    let is_set = |name| std::env::var_os(name).is_some();
    if is_set("MALLOC_ARENA_MAX") || is_set("GLIBC_TUNABLES") {
        return;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    set_arenas_max(processors.clamp(*ARENAS.start(), *ARENAS.end()));
}

#[cfg(target_env = "gnu")]
fn set_arenas_max(arenas: usize) {
    let arenas = libc::c_int::try_from(arenas).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call takes two numbers, locks the allocator itself, and keeps every allocation valid.
    // Its result says whether the bound is set; without it more memory is held and nothing else changes.
    let _is_set = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}

#[cfg(not(target_env = "gnu"))]
fn set_arenas_max(_arenas: usize) {}
