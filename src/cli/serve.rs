//! `loadline serve`: loads the configuration, looks after the targets, serves until it is told to stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::cluster;
use super::permit::Active;
use super::wiring::{self, Wiring};
use crate::config::{self, Configuration, GrpcTlsFile};
use crate::core::request::Problem;
use crate::demo;
use crate::engine::store::Store;
use crate::engine::{Clock, Engine, clock};
use crate::surfaces::external_metrics;
use crate::surfaces::http::{self, AppState, ServiceStatus, Setup};
use crate::surfaces::keda::{self, Scaler};
use crate::surfaces::metrics;
use crate::surfaces::tls::{Callers, Setting, Tls};

/// How often the configuration is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(5);

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The configuration file; without it posted requests only.
    pub config: Option<PathBuf>,
    /// Watch two simulated clusters.
    pub demo: bool,
    /// Overrides the address in the configuration.
    pub http: Option<SocketAddr>,
    /// Overrides the address of the gRPC interface in the configuration.
    pub grpc: Option<SocketAddr>,
}

/// Why the service does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is not valid.
    #[error("{} is not valid:\n{}", .0.display(), lines(.1))]
    Invalid(PathBuf, Vec<Problem>),
    /// The configuration cannot be read.
    #[error("{} cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, std::io::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Problems as lines of text.
#[must_use]
pub fn lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| if problem.path.is_empty() { format!("  {}", problem.message) } else { format!("  {}: {}", problem.path, problem.message) })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Serves until SIGTERM or SIGINT.
pub async fn run(options: Options) -> Result<(), ServeError> {
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone()));
    run_until(options, stop).await
}

/// Serves until the token is cancelled.
pub async fn run_until(options: Options, stop: CancellationToken) -> Result<(), ServeError> {
    metrics::install().map_err(|error| ServeError::Failed(error.to_string()))?;
    tokio::spawn(metrics::upkeep(stop.clone()));
    let store = Arc::new(Store::new());
    let status = Arc::new(ServiceStatus::new());
    let clock: Clock = Arc::new(clock::now);

    let demo = if options.demo {
        let demo = demo::start(demo::Pace::default(), demo::follow_store(Arc::clone(&store))).await;
        Some(demo.map_err(|error| ServeError::Failed(format!("the demonstration does not start: {error}")))?)
    } else {
        None
    };
    let text = match (&demo, &options.config) {
        (Some(demo), _) => Some(demo.config_yaml.clone()),
        (None, Some(path)) => Some(std::fs::read_to_string(path).map_err(|error| ServeError::Unreadable(path.clone(), error))?),
        (None, None) => None,
    };
    let origin = options.config.clone().unwrap_or_else(|| PathBuf::from("the demonstration"));
    let invalid = |problems| ServeError::Invalid(origin.clone(), problems);
    let configuration = text.as_deref().map(config::parse).transpose().map_err(invalid)?.unwrap_or_default();
    let active = Arc::new(Active::of(&configuration.server.lease).map_err(|problem| invalid(vec![problem]))?);
    let engine = Arc::new(Engine::new(Arc::clone(&store), Arc::clone(&clock)).with_permit(active.permit()));
    let loader = Loader { engine: Arc::clone(&engine), active: Arc::clone(&active), wiring: Wiring::default() };
    loader.apply(&configuration).map_err(invalid)?;
    status.loaded(clock());

    let token = match &configuration.server.bearer_token_file {
        Some(path) => Some(wiring::read_secret(path).map_err(|message| ServeError::Failed(format!("server.auth.bearerTokenFile: {message}")))?),
        None => None,
    };
    let mut setup = Setup::new(Arc::clone(&store), Arc::clone(&status), stop.clone());
    setup.demo = options.demo;
    setup.token = token;
    setup.limits.body_bytes = configuration.server.max_body_bytes;
    let limits = setup.limits;
    let place = |configured: SocketAddr| if options.demo { SocketAddr::from(([127, 0, 0, 1], configured.port())) } else { configured };
    let (listener, address) = listen(options.http.unwrap_or(place(configuration.server.http))).await?;
    let (keda_listener, grpc) = match (listen(options.grpc.unwrap_or(place(configuration.server.grpc))).await, options.grpc) {
        // Prometheus has the same port: a demonstration beside one takes another
        (Err(ServeError::Listen(_, error)), None) if options.demo && error.kind() == std::io::ErrorKind::AddrInUse => {
            listen(([127, 0, 0, 1], 0).into()).await?
        }
        (listening, _) => listening?,
    };
    let grpc_tls = configuration.server.grpc_tls.as_ref().map(keda_tls).transpose().map_err(|problem| invalid(vec![problem]))?;
    let scaler = Scaler::new(keda::Setup { store: Arc::clone(&store), clock: Arc::clone(&clock), limits: keda::Limits::default(), shutdown: stop.clone() });
    let external = match &configuration.server.external_metrics {
        Some(config) => {
            let (external, certificate) =
                cluster::external_metrics(config, Arc::clone(&store), Arc::clone(&clock)).map_err(|problem| invalid(vec![problem]))?;
            let (listener, address) = listen(config.listen).await?;
            info!(%address, "listening for the external metrics API");
            Some((listener, external, certificate))
        }
        None => None,
    };
    info!(%address, %grpc, targets = configuration.targets.len(), demo = options.demo, version = metrics::VERSION, "listening");
    if let (Some(path), false) = (&options.config, options.demo) {
        tokio::spawn(watch(path.clone(), text.unwrap_or_default(), loader, Arc::clone(&status), clock, stop.clone()));
    }
    let (stopped, acting) = (stop.clone(), CancellationToken::new());
    let engine_stops = async {
        stopped.cancelled().await;
        engine.stop().await;
        // only now nothing is performed any more, and another instance may
        acting.cancel();
    };
    let external = async {
        if let Some((listener, external, certificate)) = external {
            external_metrics::serve(listener, external, certificate, stop.clone(), limits).await;
        }
    };
    let http = http::serve(listener, http::router(AppState::new(setup)), stop.clone(), limits);
    let keda = keda::serve(keda_listener, scaler, grpc_tls, stop.clone());
    tokio::join!(http, keda, external, engine_stops, active.keep(acting.clone()));
    drop(demo);
    info!("stopped");
    Ok(())
}

/// TLS of the gRPC interface, for clients of HTTP/2.
fn keda_tls(config: &GrpcTlsFile) -> Result<Tls, Problem> {
    let GrpcTlsFile { cert_file, key_file, client_ca_file } = config.clone();
    let callers = client_ca_file.map_or(Callers::Anyone, Callers::Of);
    let setting = Setting { what: "the gRPC interface", cert_file, key_file, callers, protocol: b"h2" };
    Tls::read(setting).map_err(|message| Problem::new("server.grpcTls", message))
}

/// Listens on an address, and says which one it is where the port was left open.
async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Listen(address, error))?;
    let address = listener.local_addr().unwrap_or(address);
    Ok((listener, address))
}

/// Brings the targets in line with a configuration.
struct Loader {
    engine: Arc<Engine>,
    active: Arc<Active>,
    wiring: Wiring,
}

impl Loader {
    /// Takes a configuration into force, or says all that is wrong with it and changes nothing.
    fn load(&self, text: &str) -> Result<Configuration, Vec<Problem>> {
        let configuration = config::parse(text)?;
        self.apply(&configuration)?;
        Ok(configuration)
    }

    fn apply(&self, configuration: &Configuration) -> Result<(), Vec<Problem>> {
        let plan = self.wiring.plan(configuration)?;
        self.active.want(plan.specs());
        self.engine.apply(plan);
        Ok(())
    }
}

/// Looks at the file again and again: a ConfigMap is swapped by a symbolic link beside it, which a watch on the file
/// misses. A configuration that is not valid changes nothing and is named once. A file that is just being written can look
/// like a shorter, valid one, even like one without targets, so a change counts once it was read twice alike.
async fn watch(path: PathBuf, mut seen: String, loader: Loader, status: Arc<ServiceStatus>, clock: Clock, stop: CancellationToken) {
    let mut unreadable = false;
    let mut pending: Option<String> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(WATCH_EVERY) => {}
        }
        let text = match read(&path).await {
            Ok(text) => text,
            Err(message) => {
                if status.configuration().problems != [message.clone()] {
                    warn!(problem = message, "the configuration cannot be read; the last good one stays in force");
                    status.reload_failed(clock(), vec![message]);
                }
                unreadable = true;
                pending = None;
                continue;
            }
        };
        if text == seen && !unreadable {
            pending = None;
            continue;
        }
        if pending.as_ref() != Some(&text) {
            pending = Some(text);
            continue;
        }
        // a file that came back is judged again even where it is the same: its failure would be told for ever otherwise
        unreadable = false;
        pending = None;
        match loader.load(&text) {
            Ok(configuration) => {
                info!(targets = configuration.targets.len(), "a new configuration is in force");
                status.loaded(clock());
            }
            Err(problems) => {
                error!(problems = lines(&problems), "the new configuration is not valid; the last good one stays in force");
                status.reload_failed(clock(), problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect());
            }
        }
        seen = text;
    }
}

async fn read(path: &Path) -> Result<String, String> {
    tokio::fs::read_to_string(path).await.map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Cancels the token on SIGTERM or SIGINT.
async fn stop_on_signal(stop: CancellationToken) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(mut terminate), Ok(mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            (terminate, interrupt) => {
                warn!(error = ?terminate.err().or(interrupt.err()), "signals cannot be caught");
                return;
            }
        }
    }
    #[cfg(not(unix))]
    {
        if tokio::signal::ctrl_c().await.is_err() {
            return;
        }
    }
    info!("stopping: requests in flight are served");
    stop.cancel();
}
