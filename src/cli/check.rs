//! `loadline check`: what is wrong with a configuration, all of it at once; with `--kubernetes` also what the cluster around
//! it has to say: whether counts can be read, who serves the external metrics API, whether this service knows whom to
//! believe, and whether the HPA controller may read. It only asks, and changes nothing.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use super::cluster::{InCluster, Owner};
use super::{EXIT_FAILED, EXIT_FINE, EXIT_INVALID, serve, wiring};
use crate::config::{self, Configuration};
use crate::core::units::Count;
use crate::sources::kubernetes::in_cluster;
use crate::surfaces::external_metrics::{Cluster, FrontProxy, GROUP, Identity, METRIC, Review, VERSION};

/// As whom the HPA controller asks.
const HPA_CONTROLLER: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";

/// Reads a configuration and prints its problems. Returns the exit code.
pub async fn run(path: &Path, kubernetes: bool, out: &mut impl Write, err: &mut impl Write) -> io::Result<u8> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            writeln!(err, "{} cannot be read: {error}", path.display())?;
            return Ok(EXIT_FAILED);
        }
    };
    let configuration = match config::parse(&text) {
        Ok(configuration) => configuration,
        Err(problems) => {
            writeln!(err, "{} is not valid:\n{}", path.display(), serve::lines(&problems))?;
            return Ok(EXIT_INVALID);
        }
    };
    writeln!(out, "{} is valid: {} targets", path.display(), configuration.targets.len())?;
    for target in &configuration.targets {
        writeln!(out, "  {}  {}  every {}", target.name, target.kind, target.interval)?;
    }
    if !kubernetes {
        return Ok(EXIT_FINE);
    }
    let findings = look_around(&configuration).await;
    writeln!(out, "the cluster:")?;
    let mut code = EXIT_FINE;
    for finding in findings {
        match finding {
            Ok(line) => writeln!(out, "  {line}")?,
            Err(line) => {
                code = EXIT_FAILED;
                writeln!(err, "  {line}")?;
            }
        }
    }
    Ok(code)
}

/// What there is to say of the cluster; an error is what stands in the way of the configuration.
async fn look_around(configuration: &Configuration) -> Vec<Result<String, String>> {
    let cluster = match in_cluster() {
        Ok((api, _)) => InCluster::new(api),
        Err(error) => return vec![Err(error.to_string())],
    };
    let mut findings = Vec::new();
    for target in configuration.targets.iter().filter(|target| matches!(target.replicas, Some(config::ReplicasConfig::Kubernetes { .. }))) {
        findings.push(counts(target).await.map(|line| format!("{}: {line}", target.name)).map_err(|line| format!("{}: {line}", target.name)));
    }
    let wanted = configuration.server.external_metrics.is_some();
    let service = format!("{VERSION}.{GROUP}");
    findings.push(match cluster.owner().await {
        Ok(Owner::Nobody) if wanted => Err(format!("{service}: nobody serves it: create the APIService, see deploy/examples/hpa-external-metrics")),
        Ok(Owner::Nobody) => Ok(format!("{service}: nobody serves it")),
        Ok(Owner::Service { name, available: Ok(()) }) => {
            let hint = if wanted { "; an HPA reads there and nowhere else" } else { "" };
            Ok(format!("{service}: Service {name} serves it{hint}"))
        }
        Ok(Owner::Service { name, available: Err(why) }) => {
            let line = format!("{service}: Service {name} is to serve it and is not available: {why}");
            if wanted { Err(line) } else { Ok(line) }
        }
        Err(error) => Err(format!("{service}: it cannot be told who serves it: {error}")),
    });
    let Some(external) = &configuration.server.external_metrics else { return findings };
    findings.push(match cluster.authentication().await.and_then(|data| FrontProxy::parse(&data)) {
        Ok(front_proxy) => Ok(format!("the front proxy is known: common names {:?}", front_proxy.allowed_names())),
        Err(error) => Err(format!("the front proxy cannot be known: {error}")),
    });
    let nowhere: Vec<&str> = configuration.targets.iter().filter(|target| target.namespace.is_empty()).map(|target| target.name.as_str()).collect();
    if !nowhere.is_empty() {
        findings.push(Err(format!("no HPA can read {}: expected a namespace in each of these targets", nowhere.join(", "))));
    }
    if external.allow.is_none() {
        let namespaces: BTreeSet<&str> = configuration.targets.iter().map(|target| target.namespace.as_str()).filter(|name| !name.is_empty()).collect();
        for namespace in namespaces {
            let identity = Identity { user: HPA_CONTROLLER.to_owned(), ..Identity::default() };
            let review = Review { identity, namespace: namespace.to_owned() };
            findings.push(match cluster.allows(&review).await {
                Ok(true) => Ok(format!("the HPA controller may read {METRIC} in {namespace}")),
                Ok(false) => Err(format!("the HPA controller may not read {METRIC} in {namespace}: {HPA_CONTROLLER} needs the right to list it")),
                Err(error) => Err(format!("it cannot be asked who may read {METRIC} in {namespace}: {error}")),
            });
        }
    }
    findings
}

async fn counts(target: &config::TargetConfig) -> Result<String, String> {
    let Some(source) = wiring::replicas(target).map_err(|problem| format!("{}: {}", problem.path, problem.message))? else {
        return Ok("no count is read".to_owned());
    };
    let replicas = source.read().await.map_err(|error| error.to_string())?;
    let told = |count: Option<Count>| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    Ok(format!("{} replicas wanted, {} there, {} ready", told(replicas.spec), told(replicas.status), told(replicas.ready)))
}
