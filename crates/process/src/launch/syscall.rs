//! System calls by their number, without the C library between.
//!
//! The child of a clone shares its parent's memory and thread-local storage until the exec. What is
//! here touches neither: no `errno`, no lock, no lazily bound symbol, so every call is
//! async-signal-safe by construction. What the calls do is the business of `child` and `clone`;
//! elsewhere in this crate the safe wrappers are used.

/// The number of a call and its arguments; missing ones are zero.
pub(super) type Arguments = [usize; 6];

/// Makes the call; what it returned, or the system's error number.
///
/// # Safety
///
/// The arguments must be what the call asks for: whatever it reads or writes through them must be
/// valid for that, and what it changes must not break an invariant of this program.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn call(number: libc::c_long, arguments: Arguments) -> Result<usize, i32> {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let returned: libc::c_long;
    // SAFETY: the registers are those of the kernel's interface, the two it destroys are named, and
    // memory is assumed to be changed. The call itself is the caller's responsibility.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => returned,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    decode(returned)
}

/// Makes the call; what it returned, or the system's error number.
///
/// # Safety
///
/// The arguments must be what the call asks for: whatever it reads or writes through them must be
/// valid for that, and what it changes must not break an invariant of this program.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn call(number: libc::c_long, arguments: Arguments) -> Result<usize, i32> {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let returned: libc::c_long;
    // SAFETY: the registers are those of the kernel's interface, and memory is assumed to be
    // changed. The call itself is the caller's responsibility.
    unsafe {
        core::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") first => returned,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") sixth,
            options(nostack),
        );
    }
    decode(returned)
}

/// The kernel returns errors as the last 4095 values.
pub(super) fn decode(returned: libc::c_long) -> Result<usize, i32> {
    if (-4095..0).contains(&returned) {
        Err(i32::try_from(returned.wrapping_neg()).unwrap_or(libc::EIO))
    } else {
        usize::try_from(returned.cast_unsigned()).map_err(|_| libc::EOVERFLOW)
    }
}

/// A descriptor as an argument; the kernel looks at its low half only.
pub(super) fn fd(fd: i32) -> usize {
    fd.cast_unsigned() as usize
}

/// An address as an argument.
pub(super) fn address<T: ?Sized>(of: *const T) -> usize {
    of.cast::<u8>().expose_provenance()
}

/// A constant of the C library as an argument.
pub(super) fn word(constant: i32) -> usize {
    constant.cast_unsigned() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_returns_is_told_apart_from_its_errors() {
        assert_eq!(decode(0), Ok(0));
        assert_eq!(decode(42), Ok(42));
        assert_eq!(decode(-2), Err(libc::ENOENT));
        assert_eq!(decode(-4095), Err(4095));
        // An address in the upper half is not an error.
        assert_eq!(decode(-4096), Ok((-4096_isize).cast_unsigned()));
    }

    #[test]
    fn a_call_reaches_the_kernel() {
        // SAFETY: the call takes no arguments and changes nothing.
        let pid = unsafe { call(libc::SYS_getpid, [0; 6]) };
        assert_eq!(
            pid.ok(),
            usize::try_from(std::process::id()).ok(),
            "the kernel and the C library agree on who we are"
        );
    }
}
