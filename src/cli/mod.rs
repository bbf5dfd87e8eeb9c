//! The command line, and the wiring of everything.

mod advise;
mod args;
mod check;
mod cluster;
mod permit;
mod probe;
pub mod serve;
mod table;
mod wiring;

use std::io::{self, Write};

use clap::Parser;
use url::Url;

pub use self::args::Cli;
use self::args::{Auth, Command, Probe, Serve};
use crate::config::kafka::KafkaFile;
use crate::config::{File, FlinkJobName, HttpSource};
use crate::engine::clock;
use crate::{surfaces, telemetry};

/// All is well.
pub const EXIT_FINE: u8 = 0;
/// It failed.
pub const EXIT_FAILED: u8 = 1;
/// The command line or the input is not valid.
pub const EXIT_INVALID: u8 = 2;

/// Runs what the command line asks for. Returns the exit code.
pub async fn main() -> io::Result<u8> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { EXIT_INVALID } else { EXIT_FINE };
            error.print()?;
            return Ok(code);
        }
    };
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(options) => {
            // logs go to standard error as well
            drop((out, err));
            serve(options).await
        }
        Command::Advise { file, table } => advise::run(&file, table, clock::now(), &mut out, &mut err),
        Command::Check { file, kubernetes } => check::run(&file, kubernetes, &mut out, &mut err).await,
        Command::Probe { what } => match probed(what) {
            Ok(what) => probe::run(what, &mut out, &mut err).await,
            Err(message) => {
                writeln!(err, "{message}")?;
                Ok(EXIT_INVALID)
            }
        },
        Command::Openapi => {
            writeln!(out, "{}", surfaces::http::openapi_json().trim_end())?;
            Ok(EXIT_FINE)
        }
        Command::Schema => {
            writeln!(out, "{}", config_schema())?;
            Ok(EXIT_FINE)
        }
    }
}

async fn serve(options: Serve) -> io::Result<u8> {
    telemetry::start();
    match serve::run(serve::Options { config: options.config, demo: options.demo, http: options.http, grpc: options.grpc }).await {
        Ok(()) => Ok(EXIT_FINE),
        Err(error) => {
            let code = if matches!(error, serve::ServeError::Invalid(..)) { EXIT_INVALID } else { EXIT_FAILED };
            writeln!(io::stderr(), "loadline: {error}")?;
            Ok(code)
        }
    }
}

/// The JSON Schema of the configuration file.
#[must_use]
pub fn config_schema() -> String {
    let mut schema = schemars::schema_for!(File);
    schema.insert("title".to_owned(), "Loadline configuration".into());
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

fn probed(what: Probe) -> Result<probe::What, String> {
    Ok(match what {
        Probe::Target { config, name } => probe::What::Target { config, target: name },
        Probe::Druid { url, auth } => probe::What::Druid(http(&url, auth)?),
        Probe::Kafka { brokers, group } => kafka(brokers, group)?,
        Probe::Flink { url, job, auth } => probe::What::Flink(http(&url, auth)?, FlinkJobName::parse(&job)),
    })
}

fn kafka(brokers: Vec<String>, group: String) -> Result<probe::What, String> {
    let (server, group) = KafkaFile::of(brokers, group).checked().map_err(|problems| serve::lines(&problems))?;
    Ok(probe::What::Kafka(server, group))
}

fn http(url: &str, auth: Auth) -> Result<HttpSource, String> {
    let url = Url::parse(url).map_err(|error| format!("\"{url}\" is no address: {error}"))?;
    Ok(HttpSource { url, allowed_hosts: Vec::new(), basic_auth: auth.username.zip(auth.password_file), bearer_token_file: None, ca_file: None })
}
