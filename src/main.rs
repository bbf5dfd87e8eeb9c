//! The binary: reads the command line, runs it, and turns what went wrong into an exit code.

use std::process::ExitCode;

use anyhow::Context;

fn main() -> ExitCode {
    let code = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")
        .and_then(|runtime| runtime.block_on(loadline::cli::main()).context("the command failed"));
    match code {
        Ok(code) => ExitCode::from(code),
        // whoever read our output has read enough
        Err(error) if error.root_cause().downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            use std::io::Write;
            // nothing is left to tell it to
            let _ = writeln!(std::io::stderr(), "loadline: {error:#}");
            ExitCode::from(loadline::cli::EXIT_FAILED)
        }
    }
}
