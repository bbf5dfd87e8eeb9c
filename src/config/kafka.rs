//! `source.kafka`: brokers, a group or a pattern of groups, TLS and a login.
//!
//! A group is written as its id. Where it holds a sign that regular expressions have beyond dots and dashes, as in
//! `orders-.*`, it is an expression over the whole id, and stands for all groups that fit. Nothing is opened here.

use std::path::PathBuf;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::core::request::Problem;

/// The most brokers that are worth naming: the others are learned from the first that answers.
const MOST_BROKERS: usize = 100;
/// The most patterns of a list.
const MOST_PATTERNS: usize = 100;
/// The port of a broker that is named without one.
const USUAL_PORT: u16 = 9092;

/// A Kafka cluster and the consumer group, or groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaFile {
    /// Brokers to begin with, each `host:port`.
    pub brokers: Vec<String>,
    /// The group's id. With signs of a regular expression, as in `orders-.*`, it stands for all groups whose whole id
    /// fits, each a target of its own.
    pub group: String,
    /// Where `group` is a pattern: only groups that fit one of these patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Where `group` is a pattern: no group that fits one of these patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// TLS; `{}` for TLS with the system's authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<KafkaTlsFile>,
    /// A login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<KafkaSaslFile>,
}

/// TLS to brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KafkaTlsFile {
    /// A file with certificates of authorities, PEM, that are trusted instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// A file with a certificate of our own, PEM, for brokers that ask for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// A file with the key of that certificate, PEM, without a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

/// A login at brokers; secrets are only ever read from files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaSaslFile {
    /// `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`.
    pub mechanism: Mechanism,
    /// The user, for all but `OAUTHBEARER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// A file with the password, for all but `OAUTHBEARER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A file with the token, for `OAUTHBEARER`; read for each login, as tokens rotate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

/// How one logs in, by Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mechanism {
    /// User and password as they are.
    #[serde(rename = "PLAIN")]
    Plain,
    /// The password never goes over the wire.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// The same with a longer hash.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// A token.
    #[serde(rename = "OAUTHBEARER")]
    OAuthBearer,
}

/// A Kafka cluster as it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaServer {
    /// Brokers to begin with.
    pub brokers: Vec<(String, u16)>,
    /// TLS.
    pub tls: Option<KafkaTls>,
    /// A login.
    pub sasl: Option<KafkaLogin>,
}

impl KafkaServer {
    /// The brokers as they are written.
    #[must_use]
    pub fn name(&self) -> String {
        self.brokers.iter().map(|(host, port)| format!("{host}:{port}")).collect::<Vec<_>>().join(",")
    }
}

/// TLS to brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaTls {
    /// Certificates of authorities.
    pub ca_file: Option<PathBuf>,
    /// A certificate of our own, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaLogin {
    /// By `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`: user, and the file of the password.
    Password(Mechanism, String, PathBuf),
    /// By `OAUTHBEARER`: the file of the token.
    Token(PathBuf),
}

/// Which group, or which groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaGroupName {
    /// By its id.
    Id(String),
    /// All groups that fit, each a target of its own.
    Pattern {
        /// Over the whole id.
        group: String,
        /// Where there are any, one of them has to fit too.
        include: Vec<String>,
        /// None of them may fit.
        exclude: Vec<String>,
    },
}

impl KafkaGroupName {
    /// The group or the pattern as it is written.
    #[must_use]
    pub fn written(&self) -> &str {
        match self {
            Self::Id(text) | Self::Pattern { group: text, .. } => text,
        }
    }
}

/// Whether a group is written as a pattern.
#[must_use]
pub fn is_pattern(group: &str) -> bool {
    group.contains(['*', '+', '?', '[', ']', '(', ')', '{', '}', '|', '^', '$', '\\'])
}

/// An expression over the whole of an id.
///
/// # Errors
///
/// Why it cannot be read, in one line.
pub fn expression(text: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(&format!("^(?:{text})$")).size_limit(1 << 20).build().map_err(|error| {
        let why = match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            other => other.to_string().lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned(),
        };
        format!("\"{text}\" is no pattern: {why}")
    })
}

impl KafkaFile {
    /// A cluster without TLS and login.
    #[must_use]
    pub fn of(brokers: Vec<String>, group: String) -> Self {
        Self { brokers, group, include: Vec::new(), exclude: Vec::new(), tls: None, sasl: None }
    }

    /// The cluster and the group as they are meant, or all that is wrong with them.
    pub fn checked(&self) -> Result<(KafkaServer, KafkaGroupName), Vec<Problem>> {
        let mut problems = Vec::new();
        let meant = self.meant(&mut problems);
        if problems.is_empty() { Ok(meant) } else { Err(problems) }
    }

    /// The cluster and the group as they are meant; all that is wrong with them goes to `problems`.
    pub(super) fn meant(&self, problems: &mut Vec<Problem>) -> (KafkaServer, KafkaGroupName) {
        let mut problem = |member: &str, message: String| problems.push(Problem::new(format!("source.kafka{member}"), message));
        if self.brokers.is_empty() {
            problem(".brokers", "is empty: expected at least one host:port".to_owned());
        }
        if self.brokers.len() > MOST_BROKERS {
            problem(".brokers", format!("{} brokers are too many: expected at most {MOST_BROKERS}, as the others are learned from them", self.brokers.len()));
        }
        let mut brokers = Vec::new();
        for (index, written) in self.brokers.iter().enumerate() {
            match address(written) {
                Some(address) => brokers.push(address),
                // what stands before an @ may be a password
                None if written.contains('@') => problem(&format!(".brokers[{index}]"), "is no broker: expected host:port".to_owned()),
                None => problem(&format!(".brokers[{index}]"), format!("\"{written}\" is no broker: expected host:port")),
            }
        }
        let group = self.group(&mut problem);
        let tls = self.tls.as_ref().map(|tls| tls.meant(&mut problem));
        let sasl = self.sasl.as_ref().and_then(|sasl| sasl.meant(&mut problem));
        (KafkaServer { brokers, tls, sasl }, group)
    }

    fn group(&self, problem: &mut impl FnMut(&str, String)) -> KafkaGroupName {
        if self.group.trim().is_empty() {
            problem(".group", "is empty: expected a group's id, or a pattern such as orders-.*".to_owned());
        }
        let pattern = is_pattern(&self.group);
        if pattern && let Err(why) = expression(&self.group) {
            problem(".group", why);
        }
        for (member, list) in [("include", &self.include), ("exclude", &self.exclude)] {
            if !pattern && !list.is_empty() {
                problem(&format!(".{member}"), format!("stands beside one group, \"{}\": expected a pattern such as orders-.* as group", self.group));
            }
            if list.len() > MOST_PATTERNS {
                problem(&format!(".{member}"), format!("{} patterns are too many: expected at most {MOST_PATTERNS}", list.len()));
            }
            for (index, text) in list.iter().enumerate() {
                match expression(text) {
                    Err(why) => problem(&format!(".{member}[{index}]"), why),
                    Ok(_) if text.trim().is_empty() => problem(&format!(".{member}[{index}]"), "is empty: expected a pattern".to_owned()),
                    Ok(_) => {}
                }
            }
        }
        if pattern {
            KafkaGroupName::Pattern { group: self.group.clone(), include: self.include.clone(), exclude: self.exclude.clone() }
        } else {
            KafkaGroupName::Id(self.group.clone())
        }
    }
}

impl KafkaTlsFile {
    fn meant(&self, problem: &mut impl FnMut(&str, String)) -> KafkaTls {
        let client = match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                problem(".tls.keyFile", "is missing: expected the key of certFile".to_owned());
                None
            }
            (None, Some(_)) => {
                problem(".tls.certFile", "is missing: expected the certificate of keyFile".to_owned());
                None
            }
        };
        KafkaTls { ca_file: self.ca_file.clone(), client }
    }
}

impl KafkaSaslFile {
    fn meant(&self, problem: &mut impl FnMut(&str, String)) -> Option<KafkaLogin> {
        let mut unexpected = |member: &str, given: bool, with: &str| {
            if given {
                problem(&format!(".sasl.{member}"), format!("is not used with {with}: expected none"));
            }
        };
        if self.mechanism == Mechanism::OAuthBearer {
            unexpected("username", self.username.is_some(), "OAUTHBEARER");
            unexpected("passwordFile", self.password_file.is_some(), "OAUTHBEARER");
            if self.token_file.is_none() {
                problem(".sasl.tokenFile", "is missing: expected a file with a token".to_owned());
            }
            return self.token_file.clone().map(KafkaLogin::Token);
        }
        unexpected("tokenFile", self.token_file.is_some(), "a user and a password");
        let username = self.username.clone().filter(|name| !name.is_empty());
        if username.is_none() {
            problem(".sasl.username", "is missing: expected the user".to_owned());
        }
        if self.password_file.is_none() {
            problem(".sasl.passwordFile", "is missing: expected a file with the password".to_owned());
        }
        Some(KafkaLogin::Password(self.mechanism, username?, self.password_file.clone()?))
    }
}

/// A host and its port: `kafka:9092`, `[::1]:9092`, `kafka`.
fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && (!host.contains(':') || host.ends_with(']')) => (host, port.parse().ok().filter(|port| *port > 0)?),
        Some(_) => return None,
        None => (text, USUAL_PORT),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let named = !bare.is_empty() && bare.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | ':'));
    named.then(|| (bare.to_owned(), port))
}

/// What is in force, as JSON without secrets.
pub(super) fn effective(server: &KafkaServer, group: &KafkaGroupName) -> Value {
    let brokers: Vec<String> = server.brokers.iter().map(|(host, port)| format!("{host}:{port}")).collect();
    let tls = server.tls.as_ref().map(|KafkaTls { ca_file, client }| {
        json!({ "caFile": ca_file, "certFile": client.as_ref().map(|(certificate, _)| certificate), "keyFile": client.as_ref().map(|(_, key)| key) })
    });
    let sasl = server.sasl.as_ref().map(|login| match login {
        KafkaLogin::Password(mechanism, username, file) => json!({ "mechanism": mechanism, "username": username, "passwordFile": file }),
        KafkaLogin::Token(file) => json!({ "mechanism": Mechanism::OAuthBearer, "tokenFile": file }),
    });
    let mut kafka = json!({ "brokers": brokers, "group": group.written(), "tls": tls, "sasl": sasl });
    if let (Some(object), KafkaGroupName::Pattern { include, exclude, .. }) = (kafka.as_object_mut(), group) {
        object.insert("include".to_owned(), json!(include));
        object.insert("exclude".to_owned(), json!(exclude));
    }
    json!({ "kafka": kafka })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_and_dashes_alone_make_no_pattern() {
        for (group, expected) in [("orders", false), ("com.example.orders-v1", false), ("orders-.*", true), ("orders-(a|b)", true), ("orders_[0-9]+", true)] {
            assert_eq!(is_pattern(group), expected, "{group}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_in_one_line() {
        for text in ["orders-(", "*", "a{9999}{9999}{9999}"] {
            let why = expression(text).expect_err(text);
            assert!(why.contains(text) && !why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn a_broker_is_a_host_and_a_port() {
        for (text, expected) in [
            ("kafka:9092", Some(("kafka", 9092))),
            ("kafka-0.kafka.svc:19093", Some(("kafka-0.kafka.svc", 19093))),
            ("kafka", Some(("kafka", 9092))),
            ("10.0.0.1:9092", Some(("10.0.0.1", 9092))),
            ("[::1]:9092", Some(("::1", 9092))),
            ("::1", None),
            ("kafka:", None),
            ("kafka:0", None),
            ("kafka:99999", None),
            (":9092", None),
            ("SASL_SSL://kafka:9092", None),
            ("kafka:9092,kafka:9093", None),
            ("user:secret@kafka:9092", None),
            ("", None),
        ] {
            assert_eq!(address(text), expected.map(|(host, port)| (host.to_owned(), port)), "{text}");
        }
    }
}
