//! `source.pubsub`: a project, a subscription, and where credentials come from. Nothing is opened here.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::{Host, Url};

use crate::core::request::Problem;

/// Where Google has it.
const USUAL_URL: &str = "https://monitoring.googleapis.com";
/// The longest name of a subscription.
const LONGEST_SUBSCRIPTION: usize = 255;
/// The longest id of a project, with the domain that old ones have.
const LONGEST_PROJECT: usize = 100;

/// A Pub/Sub subscription, read from Cloud Monitoring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PubsubFile {
    /// The id of the project that the subscription belongs to.
    pub project: String,
    /// The name of the subscription, without `projects/.../subscriptions/`.
    pub subscription: String,
    /// Another address than Google's, for a private endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// A file with credentials: a service account's key, a federated identity (`external_account`) or a user's own. Absent:
    /// application default credentials, which are the metadata server's inside Google Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_file: Option<PathBuf>,
    /// A file with further certificates of authorities, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// A subscription as it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PubsubConfig {
    /// The id of the project.
    pub project: String,
    /// The name of the subscription.
    pub subscription: String,
    /// The address of Cloud Monitoring.
    pub url: Url,
    /// A file with credentials.
    pub credentials_file: Option<PathBuf>,
    /// A file with certificates of authorities.
    pub ca_file: Option<PathBuf>,
}

impl PubsubFile {
    /// What is meant, or all that is wrong; paths are those of the target.
    pub(super) fn meant(&self, problems: &mut Vec<Problem>) -> Option<PubsubConfig> {
        let before = problems.len();
        let mut problem = |member: &str, message: String| problems.push(Problem::new(format!("source.pubsub.{member}"), message));
        let names = |text: &str, more: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter));
        let project = self.project.trim();
        if project.is_empty() || project.len() > LONGEST_PROJECT || !names(project, "-.:") {
            problem("project", format!("\"{}\" is no project: expected the id of a project, for example my-project", project.escape_default()));
        }
        let subscription = self.subscription.trim();
        if subscription.contains('/') {
            problem("subscription", format!("\"{}\" holds a path: expected the name after the last /", subscription.escape_default()));
        } else if subscription.len() < 3 || subscription.len() > LONGEST_SUBSCRIPTION || !names(subscription, "-_.~+%") {
            let expected = format!("expected 3 to {LONGEST_SUBSCRIPTION} letters, digits and -_.~+%");
            problem("subscription", format!("\"{}\" is no subscription: {expected}", subscription.escape_default()));
        }
        let url = match address(self.base_url.as_deref().unwrap_or(USUAL_URL)) {
            Ok(url) => Some(url),
            Err(message) => {
                problem("baseUrl", message);
                None
            }
        };
        if problems.len() > before {
            return None;
        }
        Some(PubsubConfig {
            project: project.to_owned(),
            subscription: subscription.to_owned(),
            url: url?,
            credentials_file: self.credentials_file.clone(),
            ca_file: self.ca_file.clone(),
        })
    }
}

/// An address that a token may be sent to.
fn address(text: &str) -> Result<Url, String> {
    // what stands before an @ may be a password
    let shown = if text.contains('@') { String::new() } else { format!("\"{text}\" ") };
    let expected = "expected https:// and a host";
    let url = Url::parse(text).map_err(|error| format!("{shown}is no address: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("carries a user or a password: {expected}"));
    }
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" if url.host().is_some() => Ok(url),
        "http" if is_here => Ok(url),
        "http" => Err(format!("{shown}would carry the access token in plain text: {expected}")),
        _ => Err(format!("{shown}is no address: {expected}")),
    }
}

/// What is in force, without secrets.
pub(super) fn effective(config: &PubsubConfig) -> Value {
    let PubsubConfig { project, subscription, url, credentials_file, ca_file } = config;
    json!({ "pubsub": { "project": project, "subscription": subscription, "baseUrl": url.as_str(), "credentialsFile": credentials_file, "caFile": ca_file } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(project: &str, subscription: &str, base_url: Option<&str>) -> PubsubFile {
        PubsubFile {
            project: project.to_owned(),
            subscription: subscription.to_owned(),
            base_url: base_url.map(str::to_owned),
            credentials_file: None,
            ca_file: None,
        }
    }

    fn problems(file: &PubsubFile) -> Vec<String> {
        let mut problems = Vec::new();
        let meant = file.meant(&mut problems);
        assert_eq!(meant.is_none(), !problems.is_empty());
        problems.into_iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        assert!(problems(&file("my-project", "orders-sub", None)).is_empty());
        assert!(problems(&file("example.com:my-project", "orders.v1~a+b", Some("http://127.0.0.1:8081"))).is_empty());
        let all = problems(&file("my project", "projects/p/subscriptions/orders", Some("http://monitoring.internal")));
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all[0].starts_with("source.pubsub.project: \"my project\" is no project"), "{all:?}");
        assert!(all[1].contains("expected the name after the last /"), "{all:?}");
        assert!(all[2].contains("access token in plain text"), "{all:?}");
        assert_eq!(problems(&file("p", "or\" OR metric.type=\"x", None)).len(), 1, "a quote would leave the filter");
        assert!(problems(&file("p", "abc", Some("https://user:hunter2@host")))[0].contains("carries a user"));
        assert!(!problems(&file("p", "abc", Some("https://user:hunter2@host")))[0].contains("hunter2"));
    }
}
