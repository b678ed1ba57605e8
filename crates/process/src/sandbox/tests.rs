//! Policies, tried on real children.
