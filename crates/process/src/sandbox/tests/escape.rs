//! Ways out: into the service, round the mounts, past the filter.

use super::*;

const MOUNTS: &[&str] = &[
    "bind_root",
    "bind_above",
    "remount",
    "move",
    "umount",
    "open_tree",
    "setattr",
    "fsopen",
    "pivot",
];

#[test]
fn no_mount_can_be_changed_not_even_in_namespaces_of_its_own() {
    if !has(Need::Mounts) {
        return;
    }
    for policy in [Place::workspace, Place::workspace_in_tmp] {
        let place = Place::new();
        fs::create_dir(place.root().join("evil")).unwrap();
        let outcome = attempt(&place, "mounts", &policy(&place));
        outcome.expect(MOUNTS, &[libc::EPERM]);
        outcome.expect(&["write", "rename"], &[libc::EROFS, libc::EBUSY]);
        outcome.expect(&["new_namespaces"], &[libc::EPERM]);
        assert!(place.is_untouched());
    }
}

#[test]
fn the_kernel_alone_keeps_mounts_locked_without_the_filter() {
    if !has(Need::Mounts) {
        return;
    }
    // Landlock and the kernel's locks must hold by themselves: the filter is the second fence.
    let place = Place::new();
    fs::create_dir(place.root().join("evil")).unwrap();
    let mut confinement = machine().confine(&place.workspace(), nowhere()).unwrap();
    if let Some(restrictions) = &mut confinement.restrictions {
        restrictions.filter.clear();
    }
    let attempt = Attempt {
        place: &place,
        list: "mounts",
        who: Who::Child,
    };
    let outcome = attempt.confined(confinement, &[]);
    outcome.expect(&["write", "rename"], &[libc::EROFS, libc::EBUSY]);
    if outcome.of("new_namespaces") == 0 {
        let refused = &[libc::EROFS, libc::EBUSY];
        outcome.expect(&["nested_write", "nested_rename"], refused);
    }
    assert!(place.is_untouched());
}

#[test]
fn the_service_cannot_be_entered_read_or_signalled() {
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    for policy in [
        Sandbox::ReadOnly { network: false },
        Sandbox::ReadOnly { network: true },
        Sandbox::Custom {
            rules: vec![everything(Access::Write)],
            network: true,
        },
    ] {
        let outcome = attempt(&place, "service", &policy);
        let ways = [
            "ptrace",
            "read_memory",
            "write_memory",
            "io_uring",
            "by_handle",
            "take_descriptor",
        ];
        outcome.expect(&ways, &[libc::EPERM]);
        let files = [
            "open_memory",
            "open_root",
            "open_cwd",
            "open_descriptor",
            "environment",
            "enter_mounts",
        ];
        outcome.refuses(&files);
        outcome.allows(&["signal_self"]);
        if outcome.confined.scopes {
            outcome.expect(&["signal_service"], &[libc::EPERM]);
        } else {
            skipped("Landlock of this kernel does not keep signals inside");
        }
        let kept = if is_root() { 0b1011 } else { 0 };
        let sets = ["CapInh", "CapPrm", "CapEff"];
        assert!(
            sets.iter().all(|set| outcome.of(set) == kept),
            "{outcome:#?}"
        );
        assert_eq!(outcome.of("NoNewPrivs"), 1);
    }
}

#[test]
fn without_a_sandbox_the_service_is_in_reach() {
    let place = Place::new();
    let outcome = attempt(&place, "service", &Sandbox::DangerFullAccess);
    outcome.allows(&["signal_service", "environment", "open_root", "enter_mounts"]);
    assert_eq!(outcome.of("NoNewPrivs"), 0);
    assert!(!outcome.confined.is_enforced());
}

#[test]
fn calls_of_another_architecture_end_the_process() {
    if !has(Need::Confinement) {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return skipped("only this architecture has a second numbering");
    }
    let place = Place::new();
    let outcome = attempt(&place, "x32", &Sandbox::ReadOnly { network: true });
    assert_eq!(outcome.signal, Some(libc::SIGSYS), "{outcome:#?}");
}
