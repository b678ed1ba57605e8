//! What the documentation says of errors is what there is.

use std::collections::BTreeSet;

use turnlane_protocol::error::Reason;

#[test]
fn every_reason_is_documented_and_every_documented_reason_exists() {
    let page = include_str!("../../../../docs/errors.md");
    let is_row = |line: &&str| line.starts_with("| `") && !line.starts_with("| `data.reason`");
    let documented: Vec<&str> = page
        .lines()
        .filter(is_row)
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    let unique: BTreeSet<&str> = documented.iter().copied().collect();
    assert_eq!(documented.len(), unique.len(), "a reason has two rows");
    let existing: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(unique, existing);
}
