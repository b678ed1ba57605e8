//! The client of an exec-server, ours or Codex's.
