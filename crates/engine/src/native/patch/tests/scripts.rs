//! Which scripts are patches and which are near misses.
//!
//! The invariant here: a near miss is an ordinary command.
//!
//! Nothing is applied here.

use super::super::{Script, recognise};

const PATCH: &str = "*** Begin Patch\n*** Delete File: d\n*** End Patch";

#[test]
fn heredocs_and_quoted_patches_are_recognised() {
    for (script, cd) in [
        (format!("apply_patch <<'EOF'\n{PATCH}\nEOF"), None),
        (format!("apply_patch <<EOF\n{PATCH}\nEOF\n"), None),
        (
            format!("\n apply_patch<<\"PATCH_1\"\n{PATCH}\nPATCH_1\n\n"),
            None,
        ),
        (format!("applypatch << 'X' \n{PATCH}\nX"), None),
        (
            format!(
                "apply_patch <<'EOF'\r\n{}\r\nEOF\r\n",
                PATCH.replace('\n', "\r\n")
            ),
            None,
        ),
        (format!("apply_patch '{PATCH}'"), None),
        (format!("applypatch  '{PATCH}'\n"), None),
        (
            format!("cd a/b && apply_patch <<'EOF'\n{PATCH}\nEOF"),
            Some("a/b"),
        ),
        (format!("cd /x&&apply_patch '{PATCH}'"), Some("/x")),
        (
            format!("cd 'a b' && apply_patch <<EOF\n{PATCH}\nEOF"),
            Some("a b"),
        ),
        (
            format!("cd \"a b\" &&\napplypatch <<EOF\n{PATCH}\nEOF"),
            Some("a b"),
        ),
    ] {
        let expected = Script::Patch {
            cd: cd.map(str::to_owned),
            text: PATCH.to_owned(),
        };
        assert_eq!(recognise(&script), expected, "{script:?}");
    }
}

#[test]
fn near_misses_are_commands() {
    for script in [
        String::new(),
        "apply_patch".to_owned(),
        "apply_patch --help".to_owned(),
        "apply_patch < file".to_owned(),
        format!("apply_patch <<'EOF'\n{PATCH}"),
        format!("apply_patch <<'EOF'\n{PATCH}\n EOF"),
        format!("apply_patch <<'EOF'\n{PATCH}\nEOF\nls"),
        format!("apply_patch <<'EOF' && ls\n{PATCH}\nEOF"),
        format!("apply_patch <<'EOF' | cat\n{PATCH}\nEOF"),
        format!("apply_patch <<-EOF\n{PATCH}\nEOF"),
        format!("apply_patch <<'EOF\n{PATCH}\nEOF"),
        format!("apply_patch <<<'{PATCH}'"),
        format!("apply_patch -v <<EOF\n{PATCH}\nEOF"),
        format!("apply_patches <<EOF\n{PATCH}\nEOF"),
        format!("echo apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("ls; apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("set -e\napply_patch <<EOF\n{PATCH}\nEOF"),
        format!("apply_patch \"{PATCH}\""),
        format!("apply_patch'{PATCH}'"),
        format!("apply_patch '{PATCH}' x"),
        format!("apply_patch '{PATCH}' 'x'"),
        format!("cd a; apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd a || apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd a & apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd a b && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd - && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd ~/a && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd $HOME && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd \"$HOME\" && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd 'a'b && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd a && cd b && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cd a && ls && apply_patch <<EOF\n{PATCH}\nEOF"),
        format!("cat <<EOF\n{PATCH}\nEOF"),
    ] {
        assert_eq!(recognise(&script), Script::Command, "{script:?}");
    }
}

#[test]
fn a_bare_patch_is_no_command() {
    assert_eq!(recognise(PATCH), Script::Bare);
    assert_eq!(recognise("\n *** Begin Patch \nx"), Script::Bare);
    assert_eq!(recognise("*** Begin Patching"), Script::Command);
}
