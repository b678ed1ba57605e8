//! What patches do, from grammar to disk.
//!
//! The invariant here: tables name every form, pass and text of the contract once.
//!
//! Turns and approvals are not played here.

mod content;
mod grammar;
mod links;
mod properties;
mod scripts;
mod whole;

use std::path::Path;

use super::{DiskFiles, Patch, PatchError, Plan};

/// A patch around these lines.
fn patch(inner: &str) -> String {
    format!("*** Begin Patch\n{inner}\n*** End Patch")
}

/// Plans a patch in a folder.
fn plan(folder: &Path, inner: &str) -> Result<Plan, PatchError> {
    let files = DiskFiles::new(folder.to_owned());
    Plan::make(&Patch::parse(&patch(inner))?, &files)
}

/// Applies a patch in a folder; the text is the model's answer either way.
fn applied(folder: &Path, inner: &str) -> String {
    let done = plan(folder, inner).and_then(|plan| plan.apply().map(|()| plan.success()));
    done.unwrap_or_else(|error| error.text())
}

/// Every name below a folder with what it holds; folders end in `/`, links show their target.
fn tree(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in at.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if path.is_symlink() {
                found.push((name, format!("-> {}", path.read_link().unwrap().display())));
            } else if path.is_dir() {
                found.push((format!("{name}/"), String::new()));
                folders.push(path);
            } else {
                found.push((
                    name,
                    String::from_utf8(std::fs::read(&path).unwrap()).unwrap(),
                ));
            }
        }
    }
    found.sort();
    found
}
