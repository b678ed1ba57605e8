//! The runtime's integration tests, one module per subject.
