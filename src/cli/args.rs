//! What the command line takes.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// How many replicas, which parallelism, and why: advice for Druid, Flink, and queues.
#[derive(Debug, Parser)]
#[command(name = "loadline", version, about, max_term_width = 110)]
pub struct Cli {
    /// What to do; without a word: serve.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of serve.
    #[command(flatten)]
    pub serve: Serve,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve advice over HTTP: for targets of a configuration, for posted requests, or for a demonstration.
    Serve(Serve),
    /// Judge one request, or an array of them, and print the answer.
    Advise {
        /// A file with the body of POST /v1/advice, or - for standard input.
        file: String,
        /// Print a table for people instead of JSON.
        #[arg(long)]
        table: bool,
    },
    /// Read a configuration and print everything that is wrong with it.
    Check {
        /// The configuration file.
        file: PathBuf,
        /// Look at the cluster that this runs in as well: counts, rights, and who serves the external metrics API.
        #[arg(long)]
        kubernetes: bool,
    },
    /// Ask a source once and print the snapshot.
    Probe {
        /// What to ask.
        #[command(subcommand)]
        what: Probe,
    },
    /// Print the OpenAPI document.
    Openapi,
    /// Print the JSON Schema of the configuration file.
    Schema,
}

/// Options of serve.
#[derive(Args, Clone, Debug, Default)]
pub struct Serve {
    /// The configuration file; without it posted requests only.
    #[arg(short, long, env = "LOADLINE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Watch two simulated clusters that live through a day in twelve minutes; listens on 127.0.0.1.
    #[arg(long, conflicts_with = "config")]
    pub demo: bool,
    /// Address of the HTTP interface, for example 127.0.0.1:8080; overrides the configuration.
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// Address of the gRPC interface for KEDA, for example 127.0.0.1:9090; overrides the configuration.
    #[arg(long, value_name = "ADDRESS")]
    pub grpc: Option<SocketAddr>,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub enum Probe {
    /// The source of a target in a configuration file.
    Target {
        /// The configuration file.
        #[arg(short, long, env = "LOADLINE_CONFIG", value_name = "FILE")]
        config: PathBuf,
        /// The target's name; not needed where there is only one.
        name: Option<String>,
    },
    /// A Druid Router or Overlord.
    Druid {
        /// Its address.
        url: String,
        #[command(flatten)]
        auth: Auth,
    },
    /// A Flink job; or, for a pattern, the jobs that would be watched.
    Flink {
        /// The JobManager's address.
        url: String,
        /// The job's name or id, or a pattern such as "orders-*".
        #[arg(long)]
        job: String,
        #[command(flatten)]
        auth: Auth,
    },
    /// A Kafka consumer group; or, for a pattern, the groups that would be watched. For TLS and logins: a configuration file.
    Kafka {
        /// Brokers, host:port.
        #[arg(required = true)]
        brokers: Vec<String>,
        /// The group's id, or a pattern such as "orders-.*".
        #[arg(long)]
        group: String,
    },
}

/// Credentials of a source.
#[derive(Args, Clone, Debug, Default)]
pub struct Auth {
    /// The user.
    #[arg(long, requires = "password_file")]
    pub username: Option<String>,
    /// A file with the password.
    #[arg(long, value_name = "FILE", requires = "username")]
    pub password_file: Option<PathBuf>,
}
