//! Tests of the fate of rows.
