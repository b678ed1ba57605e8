//! The house rules that a compiler does not check, as tests of the source tree.
//!
//! Each rule is a function from data to complaints, so each can be shown to fail: the rules and
//! their own tests are in `tidy/`, and this file only applies them to the tree. The tree is what
//! git tracks or would track. What the rules must name to forbid stands in `tidy/` as well, which
//! is therefore left out where a rule is about words.

#![expect(
    clippy::unwrap_used,
    reason = "a tree that cannot be read is a failed test"
)]

#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/edges.rs"]
mod edges;
#[path = "tidy/layout.rs"]
mod layout;
#[path = "tidy/sources.rs"]
mod sources;
#[path = "tidy/tree.rs"]
mod tree;

use tree::Tree;

/// Fails with all complaints, one per line.
fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[tokio::test]
async fn crates_depend_only_on_those_above_them() {
    none(&edges::wrong_edges(&edges::workspace().await));
}

#[tokio::test]
async fn no_banned_crate_is_in_the_tree() {
    none(&edges::banned(&Tree::load().await));
}

#[tokio::test]
async fn every_crate_takes_the_lints_of_the_workspace() {
    none(&edges::without_lints(&Tree::load().await));
}

#[tokio::test]
async fn no_source_file_is_too_long() {
    none(&sources::too_long(&Tree::load().await));
}

#[tokio::test]
async fn every_source_file_says_what_it_is_for() {
    none(&sources::without_charter(&Tree::load().await));
}

#[tokio::test]
async fn unsafe_code_is_forbidden_in_every_library() {
    none(&sources::without_forbid(&Tree::load().await));
}

#[tokio::test]
async fn no_test_is_ignored() {
    none(&sources::ignored_tests(&Tree::load().await.without_tidy()));
}

#[tokio::test]
async fn no_test_sleeps() {
    none(&sources::sleeping_tests(&Tree::load().await.without_tidy()));
}

#[tokio::test]
async fn every_integration_test_belongs_to_its_crates_runner() {
    none(&layout::forgotten_tests(&Tree::load().await));
}

#[tokio::test]
async fn every_crate_has_one_integration_test_binary() {
    none(&layout::stray_binaries(&Tree::load().await));
}

#[tokio::test]
async fn every_path_in_the_documents_exists() {
    none(&documents::dead_paths(&Tree::load().await));
}

#[tokio::test]
async fn the_commands_of_the_readme_are_tried() {
    none(&documents::untried_commands(&Tree::load().await));
}

#[tokio::test]
async fn no_file_names_a_path_of_one_machine() {
    let tree = Tree::load().await.without_tidy();
    none(&documents::machine_paths(
        &tree,
        &documents::machine_folders(),
    ));
}

#[tokio::test]
async fn packages_come_from_the_public_index_only() {
    none(&documents::package_hosts(
        &Tree::load().await.without_tidy(),
    ));
}
