//! From decisions about system calls to a program for the kernel's classic BPF machine.
//!
//! The program finds the number of a call by bisection: about eight comparisons for any of them. The
//! kernel runs the program once per known number when it takes it on, to learn which calls are always
//! allowed, so a plain list would cost each spawn a comparison for every pair of numbers.

use std::collections::BTreeMap;

use libc::sock_filter;

// Codes of instructions.
pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const JUMP_IF_EQUAL: u16 = 0x15;
pub(super) const JUMP_IF_AT_LEAST: u16 = 0x35;
pub(super) const JUMP_IF_ANY: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;

// Offsets in `seccomp_data`. The lower half of an argument comes first.
pub(super) const AT_NUMBER: u32 = 0;
pub(super) const AT_ARCHITECTURE: u32 = 4;
const AT_ARGUMENTS: u32 = 16;

pub(super) const ALLOW: u32 = 0x7fff_0000;
pub(super) const KILL: u32 = 0x8000_0000;

/// The answer that fails a call with this error number.
pub(super) const fn fail(errno: i32) -> u32 {
    0x0005_0000 | errno.unsigned_abs()
}

/// Ends the call with "operation not permitted".
pub(super) const REFUSE: u32 = fail(libc::EPERM);

/// One instruction; its jumps count from the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    code: u16,
    then: u8,
    otherwise: u8,
    value: u32,
}

/// Instructions that end with an answer on every path, with the call's number in no register.
pub(super) type Body = Vec<Instruction>;

pub(super) fn answer(value: u32) -> Instruction {
    plain(RETURN, value)
}

pub(super) fn plain(code: u16, value: u32) -> Instruction {
    jump(code, value, 0, 0)
}

pub(super) fn jump(code: u16, value: u32, then: u8, otherwise: u8) -> Instruction {
    Instruction {
        code,
        then,
        otherwise,
        value,
    }
}

/// Loads the lower half of an argument: the kernel looks at no more of a number, a mode or flags.
pub(super) fn load_argument(index: u32) -> Instruction {
    plain(LOAD, AT_ARGUMENTS + 8 * index)
}

/// Loads the upper half, which an address has too.
pub(super) fn load_upper_half(index: u32) -> Instruction {
    plain(LOAD, AT_ARGUMENTS + 8 * index + 4)
}

/// The whole program: kills on a foreign architecture, allows what is not decided about.
pub(super) fn program(
    architecture: u32,
    numbers_end: Option<u32>,
    decided: &BTreeMap<u32, Body>,
) -> Vec<[u8; 8]> {
    let mut program = vec![
        plain(LOAD, AT_ARCHITECTURE),
        jump(JUMP_IF_EQUAL, architecture, 1, 0),
        answer(KILL),
        plain(LOAD, AT_NUMBER),
    ];
    if let Some(end) = numbers_end {
        program.extend([jump(JUMP_IF_AT_LEAST, end, 0, 1), answer(KILL)]);
    }
    program.extend(bisect(&segments(decided)));
    program.into_iter().map(bytes).collect()
}

/// The numbers from each start up to the next one get the same body.
fn segments(decided: &BTreeMap<u32, Body>) -> Vec<(u32, Body)> {
    let allow = || vec![answer(ALLOW)];
    let mut segments = vec![(0, allow())];
    for (number, body) in decided {
        if segments.last().is_some_and(|(start, _)| start == number) {
            segments.pop();
        }
        segments.push((*number, body.clone()));
        segments.push((number.saturating_add(1), allow()));
    }
    segments
}

fn bisect(segments: &[(u32, Body)]) -> Body {
    let (lower, upper) = segments.split_at(segments.len() / 2);
    let Some((middle, body)) = upper.first() else {
        return vec![answer(ALLOW)];
    };
    if lower.is_empty() {
        return body.clone();
    }
    let lower = bisect(lower);
    let mut program = match u8::try_from(lower.len()) {
        Ok(distance) => vec![jump(JUMP_IF_AT_LEAST, *middle, distance, 0)],
        // A conditional jump reaches 255 instructions, the other kind any number.
        Err(_) => vec![
            jump(JUMP_IF_AT_LEAST, *middle, 0, 1),
            plain(JUMP, u32::try_from(lower.len()).unwrap_or(u32::MAX)),
        ],
    };
    program.extend(lower);
    program.extend(bisect(upper));
    program
}

/// The instruction as it lies in memory.
fn bytes(instruction: Instruction) -> [u8; 8] {
    let instruction = sock_filter {
        code: instruction.code,
        jt: instruction.then,
        jf: instruction.otherwise,
        k: instruction.value,
    };
    let [code_0, code_1] = instruction.code.to_ne_bytes();
    let [k_0, k_1, k_2, k_3] = instruction.k.to_ne_bytes();
    [
        code_0,
        code_1,
        instruction.jt,
        instruction.jf,
        k_0,
        k_1,
        k_2,
        k_3,
    ]
}
