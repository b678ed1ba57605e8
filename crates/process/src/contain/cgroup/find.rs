//! Where this process stands in the cgroup tree, read from the kernel's own lists.
//!
//! Pure text in, a path or a reason out. Whether cgroups can be made there is not decided here but
//! by trying, in `probe`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The directory of the cgroup this process is in.
pub(in crate::contain) fn own() -> Result<PathBuf, String> {
    let read = |path: &str| {
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
    };
    let own = locate(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)?;
    if own.is_dir() {
        Ok(own)
    } else {
        Err(format!(
            "the cgroup of this process, {}, is not visible here",
            own.display()
        ))
    }
}

/// The same from the texts of `mountinfo` and `cgroup`. The line `0::` is the one of cgroup2, also
/// where a hybrid tree has it beside the old hierarchies.
fn locate(mountinfo: &str, cgroup: &str) -> Result<PathBuf, String> {
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
    let own = Path::new(own.ok_or("this process is in no cgroup2")?);
    let mounts: Vec<_> = mountinfo.lines().filter_map(mount).collect();
    if mounts.is_empty() {
        return Err("no cgroup2 file system is mounted".to_owned());
    }
    let outside = own.components().any(|part| part == Component::ParentDir);
    let below = mounts
        .iter()
        .filter(|_| !outside)
        .find_map(|(root, point)| {
            let rest = own.strip_prefix(root).ok()?;
            // Joining an empty path would add a slash at the end.
            Some(if rest.as_os_str().is_empty() {
                point.clone()
            } else {
                point.join(rest)
            })
        });
    below.ok_or_else(|| {
        format!(
            "the cgroup of this process, {}, is not mounted",
            own.display()
        )
    })
}

/// Root and mount point of a line about cgroup2: `36 35 98:0 /root /point options … - cgroup2 …`.
fn mount(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    if after.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = before.split(' ').skip(3);
    Some((unescape(fields.next()?), unescape(fields.next()?)))
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            Some(_) | None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn a_hybrid_tree_is_found_below_unified() {
        let own = locate(HYBRID, "8:pids:/elsewhere\n0::/user.slice/a\n");
        assert_eq!(
            own.unwrap(),
            Path::new("/sys/fs/cgroup/unified/user.slice/a")
        );
    }

    #[test]
    fn the_root_has_no_slash_at_its_end() {
        let own = locate(HYBRID, "0::/\n").unwrap();
        assert_eq!(own.to_str(), Some("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn a_mount_of_a_part_is_taken_off_the_path() {
        let line = "41 31 0:38 /docker/abc /my\\040cgroups rw - cgroup2 cgroup rw\n";
        let own = locate(line, "0::/docker/abc/inner\n");
        assert_eq!(own.unwrap(), Path::new("/my cgroups/inner"));
        let error = locate(line, "0::/docker/abd\n").unwrap_err();
        assert!(error.contains("not mounted"), "{error}");
        let error = locate(line, "0::/../other\n").unwrap_err();
        assert!(error.contains("not mounted"), "{error}");
    }

    #[test]
    fn an_old_machine_says_what_it_lacks() {
        let error = locate(HYBRID, "8:pids:/\n").unwrap_err();
        assert_eq!(error, "this process is in no cgroup2");
        let error = locate("", "0::/\n").unwrap_err();
        assert_eq!(error, "no cgroup2 file system is mounted");
    }
}
