//! The binary: see [`loadline::cli`].

fn main() {}
