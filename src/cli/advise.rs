//! `loadline advise`: judges what is in a file, and prints what `POST /v1/advice` would answer.

use std::io::{self, Read, Write};

use serde_json::{Value, json};

use super::{EXIT_FAILED, EXIT_FINE, EXIT_INVALID, serve, table};
use crate::core::request::{Batch, Problem, Refusal, Request, parse_batch};
use crate::core::units::Timestamp;

/// Judges a file, or standard input for `-`. Returns the exit code.
pub fn run(path: &str, as_table: bool, now: Timestamp, out: &mut impl Write, err: &mut impl Write) -> io::Result<u8> {
    let mut body = Vec::new();
    let read = if path == "-" { io::stdin().lock().read_to_end(&mut body).map(drop) } else { std::fs::read(path).map(|bytes| body = bytes) };
    if let Err(error) = read {
        writeln!(err, "{path} cannot be read: {error}")?;
        return Ok(EXIT_FAILED);
    }
    match parse_batch(&body, now) {
        Ok(Batch::One(request)) => {
            print(&request, as_table, out)?;
            Ok(EXIT_FINE)
        }
        Ok(Batch::Many(requests)) => many(requests, as_table, out, err),
        Err(refusal) => {
            writeln!(err, "{path}: {}", words(&refusal))?;
            Ok(EXIT_INVALID)
        }
    }
}

fn print(request: &Request, as_table: bool, out: &mut impl Write) -> io::Result<()> {
    let advice = crate::core::advise(request);
    if as_table {
        return table::render(&advice, out);
    }
    serde_json::to_writer_pretty(&mut *out, &advice)?;
    writeln!(out)
}

/// Each is judged alone; a bad one has its problems in its place.
fn many(requests: Vec<Result<Request, Refusal>>, as_table: bool, out: &mut impl Write, err: &mut impl Write) -> io::Result<u8> {
    let mut code = EXIT_FINE;
    let mut answers = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        match request {
            Ok(request) if as_table => {
                print(request, true, out)?;
                writeln!(out)?;
            }
            Ok(request) => answers.push(serde_json::to_value(crate::core::advise(request))?),
            Err(refusal) => {
                code = EXIT_INVALID;
                writeln!(err, "[{index}]: {}", words(refusal))?;
                let errors = if let Refusal::Invalid(problems) = refusal { problems.clone() } else { Vec::new() };
                answers.push(json!({ "detail": refusal.to_string(), "errors": errors }));
            }
        }
    }
    if !as_table {
        serde_json::to_writer_pretty(&mut *out, &Value::Array(answers))?;
        writeln!(out)?;
    }
    Ok(code)
}

fn words(refusal: &Refusal) -> String {
    let problems: &[Problem] = if let Refusal::Invalid(problems) = refusal { problems } else { &[] };
    if problems.is_empty() { refusal.to_string() } else { format!("the request is not valid:\n{}", serve::lines(problems)) }
}
