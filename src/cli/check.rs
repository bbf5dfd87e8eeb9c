//! `loadline check`: what is wrong with a configuration, all of it at once.

use std::io::{self, Write};
use std::path::Path;

use super::{EXIT_FAILED, EXIT_FINE, EXIT_INVALID, serve};
use crate::config;

/// Reads a configuration and prints its problems. Returns the exit code.
pub fn run(path: &Path, out: &mut impl Write, err: &mut impl Write) -> io::Result<u8> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            writeln!(err, "{} cannot be read: {error}", path.display())?;
            return Ok(EXIT_FAILED);
        }
    };
    match config::parse(&text) {
        Ok(configuration) => {
            writeln!(out, "{} is valid: {} targets", path.display(), configuration.targets.len())?;
            for target in &configuration.targets {
                writeln!(out, "  {}  {}  every {}", target.name, target.kind, target.interval)?;
            }
            Ok(EXIT_FINE)
        }
        Err(problems) => {
            writeln!(err, "{} is not valid:\n{}", path.display(), serve::lines(&problems))?;
            Ok(EXIT_INVALID)
        }
    }
}
