//! The engine against a double of the app-server that says what a test tells it to.

mod children;
mod deaths;
mod double;
mod ends;
mod half_closed;
mod lane;
mod questions;
mod reconciles;
mod steers;
mod threads;
mod turns;
