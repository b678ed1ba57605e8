//! A night without a person: what is typed in the evening, what runs, and what the log says.

mod adding;
mod logs;
mod outputs;
mod recipe;
mod serving;
