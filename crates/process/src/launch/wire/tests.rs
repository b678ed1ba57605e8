//! A plan survives its journey to the keeper, and nothing else is taken for one.

use std::ffi::CString;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn string() -> impl Strategy<Value = CString> {
    vec(1..=255_u8, 0..24).prop_map(|bytes| CString::new(bytes).unwrap())
}

fn mount_step() -> impl Strategy<Value = MountStep> {
    (0..8_u8, string(), string()).prop_map(|(kind, path, other)| match kind {
        0 => MountStep::BindSelf(path),
        1 => MountStep::ReadOnly(path),
        2 => MountStep::MaskDirectory(path),
        3 => MountStep::MaskFile(path),
        4 => MountStep::Freeze(path),
        5 => MountStep::Restore(path),
        6 => MountStep::EmptyDirectory(path),
        _ => MountStep::Instead(other, path),
    })
}

fn restrictions() -> impl Strategy<Value = Restrictions> {
    let mounts =
        (option::of(any::<(u32, u32)>()), vec(mount_step(), 0..5)).prop_map(|(ids, steps)| {
            Mounts {
                user_namespace: ids,
                steps,
            }
        });
    let filter = vec(any::<[u8; 8]>(), 0..9);
    (option::of(mounts), any::<u64>(), filter).prop_map(|(mounts, kept, filter)| Restrictions {
        mounts,
        capabilities_kept: kept,
        filter,
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let strings = || vec(string(), 0..5);
    let limits = vec(any::<(u32, u64, u64)>(), 0..4);
    let texts = (string(), strings(), strings(), strings(), string());
    (texts, any::<bool>(), limits, option::of(restrictions())).prop_map(
        |((program, programs, argv, envp, cwd), controlling, rlimits, restrictions)| Plan {
            program,
            programs,
            argv,
            envp,
            cwd,
            terminal: if controlling {
                Terminal::Controlling
            } else {
                Terminal::None
            },
            rlimits,
            restrictions,
        },
    )
}

proptest! {
    #[test]
    fn a_plan_comes_back_as_it_was_sent(plan in plan()) {
        prop_assert_eq!(Plan::decode(&plan.encode()), Some(plan));
    }

    #[test]
    fn a_plan_that_was_cut_or_extended_is_none(plan in plan(), cut in any::<prop::sample::Index>()) {
        let mut bytes = plan.encode();
        prop_assert_eq!(Plan::decode(&bytes[..cut.index(bytes.len())]), None);
        bytes.push(0);
        prop_assert_eq!(Plan::decode(&bytes), None);
    }

    #[test]
    fn a_plan_with_a_wrong_byte_is_read_or_refused_but_never_panics(
        plan in plan(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = plan.encode();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        // What can be read is what was written, so no two plans have the same bytes.
        if let Some(read) = Plan::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused_but_never_panic(mut bytes in vec(any::<u8>(), 0..400)) {
        if let Some(first) = bytes.first_mut() {
            *first = LAYOUT;
        }
        if let Some(read) = Plan::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }

    #[test]
    fn a_launch_error_comes_back_as_it_was_sent(
        stage in prop::sample::select(&Stage::ALL[..]),
        errno in any::<i32>(),
        index in any::<u32>(),
    ) {
        let error = LaunchError { stage, errno, index };
        prop_assert_eq!(LaunchError::decode(&error.encode()), Some(error));
    }
}

#[test]
fn a_length_that_cannot_be_is_refused_without_an_allocation() {
    let mut bytes = vec![LAYOUT];
    bytes.extend_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(Plan::decode(&bytes), None);
}

#[test]
fn bytes_that_are_no_launch_error_are_none() {
    let error = LaunchError {
        stage: Stage::Exec,
        errno: libc::ENOENT,
        index: 0,
    };
    let mut bytes = error.encode();
    assert_eq!(LaunchError::decode(&bytes[..11]), None);
    bytes[0] = 11;
    assert_eq!(LaunchError::decode(&bytes), None);
}
