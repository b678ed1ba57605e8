//! What stands above every policy: hidden paths, names that may not be created, roots that stay where
//! they are, devices, set-id bits, shared memory.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const SECRET: &str = "the-token-of-the-daemon";

/// Tries to read, list, lock, change, move and link everything at `$home`.
const ON_HOME: &str = "cat $home/token; cat $home/run/token; ls -a $home; base64 $home/token; \
    flock -s -n $home/token echo LOCKED; (cd $home && cat token); \
    for p in /proc/1 /proc/self /proc/$service; do cat $p/root$home/token; cat $p/cwd/token; done; \
    echo x > $home/config.toml; echo x >> $home/token; chmod 777 $home; rm -rf $home; \
    mv $home ${home}2; mkdir -p $home; ln $home/token linked; ln -s $home/token l; cat l linked; \
    cp $home/token copied; echo end";

fn make_home(home: &Path) {
    fs::create_dir_all(home.join("run")).unwrap();
    fs::write(home.join("token"), SECRET).unwrap();
    fs::write(home.join("run/token"), SECRET).unwrap();
    fs::write(home.join("config.toml"), "").unwrap();
}

fn is_whole(home: &Path) -> bool {
    fs::read(home.join("token")).is_ok_and(|text| text == SECRET.as_bytes())
        && fs::read(home.join("config.toml")).is_ok_and(|text| text.is_empty())
        && fs::read_dir(home).unwrap().count() == 3
}

fn every_policy(place: &Place) -> Vec<Sandbox> {
    let network = |network| Sandbox::WorkspaceWrite {
        roots: vec![place.root()],
        network,
        exclude_tmpdir: false,
        exclude_slash_tmp: false,
    };
    vec![
        Sandbox::ReadOnly { network: false },
        Sandbox::ReadOnly { network: true },
        network(false),
        network(true),
        place.workspace(),
        Sandbox::Custom {
            rules: vec![everything(Access::Read)],
            network: false,
        },
        Sandbox::Custom {
            rules: vec![everything(Access::Write)],
            network: false,
        },
    ]
}

/// Everything that a program needs, directory by directory.
fn minimal() -> Sandbox {
    let directories = [
        "/usr", "/bin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/tmp",
    ];
    Sandbox::Custom {
        rules: directories
            .map(|path| PathRule {
                path: path.into(),
                access: Access::Read,
                missing: MissingPath::Skip,
            })
            .into(),
        network: false,
    }
}

fn attack(policy: &Sandbox, place: &Place, home: &Path, hidden: &[PathBuf]) -> Outcome {
    let around = Surroundings {
        hidden,
        ..nowhere()
    };
    let service = std::process::id();
    let command = format!("service={service}; home='{}'; {ON_HOME}", home.display());
    shell_in(policy, &command, &place.root(), around)
}

#[test]
fn a_hidden_directory_is_not_there_wherever_it_lies_and_whatever_the_policy_allows() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let homes = [
        place.outside().join("home"),
        place.root().join("home"),
        place.root().join("deep/er/.turnlane"),
        place.tmp.path().join("home"),
    ];
    for home in homes {
        make_home(&home);
        let hidden = [home.clone()];
        for policy in every_policy(&place) {
            let outcome = attack(&policy, &place, &home, &hidden);
            let said = &outcome.said;
            assert!(said.ends_with("end\n"), "{policy:?}: {said}");
            assert!(!said.contains(SECRET), "{policy:?}: {said}");
            assert!(!said.contains("config.toml\n"), "{policy:?}: {said}");
            assert!(!said.contains("LOCKED"), "{policy:?}: {said}");
            assert!(is_whole(&home), "{policy:?} {}: {said}", home.display());
            for left in ["l", "linked", "copied"] {
                let _ = fs::remove_file(place.root().join(left));
            }
        }
    }
}

#[test]
fn a_hidden_path_is_hidden_by_its_links_and_its_other_mounts_too() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let home = place.outside().join("home");
    make_home(&home);
    let link = place.tmp.path().join("link");
    symlink(&home, &link).unwrap();
    // Hidden by the name of the link, attacked by both.
    let hidden = [link.clone()];
    for policy in every_policy(&place) {
        for way in [&home, &link] {
            let outcome = attack(&policy, &place, way, &hidden);
            assert!(
                !outcome.said.contains(SECRET),
                "{policy:?}: {}",
                outcome.said
            );
            assert!(is_whole(&home), "{policy:?}");
            symlink(&home, &link).unwrap_or_default();
        }
    }
}

#[test]
fn landlock_alone_hides_a_directory_from_reading() {
    if !has(Need::Confinement) {
        return;
    }
    let machine = Machine {
        mounts: Err("no namespaces here".to_owned()),
        ..machine().clone()
    };
    let place = Place::new();
    let home = place.outside().join("home");
    make_home(&home);
    let hidden = [home.clone()];
    let around = Surroundings {
        hidden: &hidden,
        ..nowhere()
    };
    for network in [false, true] {
        let policy = Sandbox::ReadOnly { network };
        for round in ["made", "kept"] {
            let confinement = machine.confine(&policy, around).unwrap();
            assert_eq!(confinement.confined.fs, FsEnforcement::Landlock);
            let command = format!(
                "home='{}'; {ON_HOME}; cat {}/file",
                home.display(),
                place.outside().display()
            );
            let argv = ["sh", "-c", &command].map(OsString::from);
            let outcome = run_confined(confinement, argv, &[], &place.root());
            let said = &outcome.said;
            assert!(!said.contains(SECRET), "{round}: {said}");
            assert!(!said.contains("LOCKED"), "{round}: {said}");
            assert!(said.ends_with("end\ncontents"), "{round}: {said}");
            assert!(is_whole(&home), "{round}: {said}");
        }
    }
    // What is beside it appears and can be read by the next command.
    fs::write(place.outside().join("later"), "new contents").unwrap();
    let confinement = machine
        .confine(&Sandbox::ReadOnly { network: false }, around)
        .unwrap();
    let command = format!("cat {}/later", place.outside().display());
    let argv = ["sh", "-c", &command].map(OsString::from);
    let outcome = run_confined(confinement, argv, &[], &place.root());
    assert_eq!(outcome.said, "new contents");
}

#[test]
fn nothing_inside_of_a_hidden_directory_can_be_a_root() {
    let place = Place::new();
    let home = place.tmp.path().join("a");
    let around = Surroundings {
        hidden: &[home],
        ..nowhere()
    };
    if !has(Need::Confinement) {
        return;
    }
    let error = machine().confine(&place.workspace(), around).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
    assert!(error.to_string().contains("no sandbox may see"), "{error}");
}

#[test]
fn protected_names_are_not_created_where_they_are_missing_and_nothing_is_left() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let root = place.root();
    fs::remove_dir_all(root.join(".git")).unwrap();
    let command = "for n in .git .codex .agents .turnlane; do \
        mkdir $n; echo x > $n/config; echo x > $n; ln -sfn /tmp $n; rmdir $n; mv $n y; \
        mkdir z; mv -T z $n; ls -A $n; done; rm -rf z; echo fine > made; echo end";
    for policy in [place.workspace(), place.workspace_in_tmp()] {
        let outcome = shell(&policy, command, &root);
        assert!(outcome.said.ends_with("end\n"), "{}", outcome.said);
        let mut left: Vec<_> = fs::read_dir(&root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["file", "made"], "{}", outcome.said);
    }
    // A root that is itself such a name was named on purpose.
    fs::create_dir(root.join(".git")).unwrap();
    let policy = Sandbox::WorkspaceWrite {
        roots: vec![root.clone(), root.join(".git")],
        network: false,
        exclude_tmpdir: true,
        exclude_slash_tmp: true,
    };
    let outcome = shell(&policy, "echo x > .git/config && mkdir .codex", &root);
    assert!(root.join(".git/config").exists(), "{}", outcome.said);
    assert!(!root.join(".codex").exists(), "{}", outcome.said);
}

#[test]
fn a_root_is_not_swapped_for_a_link() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let root = place.root();
    fs::remove_dir_all(root.join(".git")).unwrap();
    let inner = root.join("out");
    fs::create_dir(&inner).unwrap();
    let policy = Sandbox::WorkspaceWrite {
        roots: vec![root.clone(), inner.clone()],
        network: false,
        exclude_tmpdir: true,
        exclude_slash_tmp: false,
    };
    let swap = format!(
        "cd /tmp; for d in '{root}' '{above}' '{inner}'; do mv $d $d.old; rm -rf $d; rmdir $d; \
         ln -sfn '{outside}' $d; done; echo end",
        root = root.display(),
        above = root.parent().unwrap().display(),
        inner = inner.display(),
        outside = place.outside().display(),
    );
    let outcome = shell(&policy, &swap, &root);
    assert!(outcome.said.ends_with("end\n"), "{}", outcome.said);
    for directory in [&root, &inner] {
        let found = directory.symlink_metadata().unwrap();
        assert!(found.is_dir(), "{}: {}", directory.display(), outcome.said);
    }
    // Were it swapped all the same, by a command with other roots: refused, not followed.
    fs::remove_dir_all(&inner).unwrap();
    symlink(place.outside(), &inner).unwrap();
    let error = machine().confine(&policy, nowhere()).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
    assert!(
        error.to_string().contains("leads through the link"),
        "{error}"
    );
}

#[test]
fn a_root_that_was_resolved_before_is_refused_when_a_link_takes_its_place() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let around = Surroundings {
        root_links: RootLinks::Refused,
        ..nowhere()
    };
    machine().confine(&place.workspace(), around).unwrap();
    // Not writable under this policy, so only the earlier resolution tells.
    let above = place.root().parent().unwrap().to_owned();
    let moved = place.tmp.path().join("moved");
    fs::rename(&above, &moved).unwrap();
    symlink(&moved, &above).unwrap();
    machine().confine(&place.workspace(), nowhere()).unwrap();
    let error = machine().confine(&place.workspace(), around).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
    assert!(error.to_string().contains("now a link"), "{error}");
}

#[test]
fn a_temporary_directory_behind_a_link_that_commands_may_replace_is_not_writable() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let tmpdir = place.tmp.path().join("tmpdir");
    symlink(place.outside(), &tmpdir).unwrap();
    let around = Surroundings {
        tmpdir: Some(&tmpdir),
        ..nowhere()
    };
    let policy = Sandbox::WorkspaceWrite {
        roots: vec![place.root()],
        network: false,
        exclude_tmpdir: false,
        exclude_slash_tmp: false,
    };
    let command = format!("echo x > '{}/new'", tmpdir.display());
    let outcome = shell_in(&policy, &command, &place.root(), around);
    assert!(!place.outside().join("new").exists(), "{}", outcome.said);
}

#[test]
fn raw_disks_and_other_devices_cannot_be_read() {
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    let devices = "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg /dev/ptmx \
        $(find /dev -type b 2> /dev/null); do [ -e $d ] && head -c 1 $d > /dev/null 2>&1 && echo READ $d; done; \
        head -c 4 /dev/urandom | wc -c";
    for policy in every_policy(&place).into_iter().chain([minimal()]) {
        if matches!(&policy, Sandbox::Custom { rules, .. } if rules == &[everything(Access::Write)])
        {
            continue;
        }
        let outcome = shell(&policy, devices, &place.root());
        assert_eq!(outcome.said, "4\n", "{policy:?}");
    }
}

#[test]
fn no_set_id_program_is_left_behind() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let command = "cp /bin/true suid; chmod u+s suid; chmod 4755 suid; chmod g+s suid; \
        install -m 4755 /bin/true suid2; cp -p /bin/su suid3; chmod 755 suid && echo end";
    let outcome = shell(&place.workspace(), command, &place.root());
    assert!(outcome.said.ends_with("end\n"), "{}", outcome.said);
    for entry in fs::read_dir(place.root()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{:?}", entry.file_name());
    }
}

#[test]
fn shared_memory_is_the_processs_own() {
    if !has(Need::Mounts) || !Path::new("/dev/shm").is_dir() {
        return;
    }
    let place = Place::new();
    let own = place.outside().join("dir");
    let around = Surroundings {
        shared_memory: Some(&own),
        ..nowhere()
    };
    let name = format!("turnlane-test-{}", std::process::id());
    let outside = Path::new("/dev/shm").join(&name);
    fs::write(&outside, "others").unwrap();
    let command = format!("ls -A /dev/shm; echo x > /dev/shm/{name} && cat /dev/shm/{name}");
    let outcome = shell_in(&place.workspace(), &command, &place.root(), around);
    let kept = fs::read_to_string(&outside);
    fs::remove_file(&outside).unwrap();
    assert_eq!(outcome.said, "x\n");
    assert_eq!(kept.unwrap(), "others");
    assert_eq!(fs::read_to_string(own.join(&name)).unwrap(), "x\n");
}

#[test]
fn a_confined_bash_does_not_read_the_users_start_up_file() {
    if !has(Need::Mounts) {
        return;
    }
    if !Path::new("/bin/bash").exists() {
        return skipped("bash is not installed");
    }
    let place = Place::new();
    fs::write(place.root().join(".bashrc"), "echo START-UP FILE\n").unwrap();
    let env = [("HOME", place.root().into_os_string())];
    let argv = ["/bin/bash", "-c", "echo run"].map(OsString::from);
    let outcome = run(&place.workspace(), argv, &env, &place.root());
    assert_eq!(outcome.said, "run\n");
}
