//! One connection to a broker: frames, versions of calls, and the login.
//!
//! A call is a length, a header and a body; answers come in the order of the calls, and carry the number of theirs. One
//! call is on its way at a time. The version of each call is the highest that both sides know, as the broker tells when it
//! is greeted (`ApiVersions`).
//!
//! A call that was given up half-way leaves an answer behind that belongs to nobody: whoever cancels a call drops the
//! connection with it, and [`super::client`] sees to that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message, StrBytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::scram::{Hash, Scram};
use super::security::{Sasl, Security, bearer, plain};
use crate::engine::clock;
use crate::engine::source::{FailureKind, SourceError};

/// The largest answer that is read.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// `UNSUPPORTED_VERSION`.
const UNSUPPORTED_VERSION: i16 = 35;

/// A host and its port.
pub type Address = (String, u16);

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection.
pub struct Connection {
    stream: Box<dyn Stream>,
    broker: String,
    versions: HashMap<i16, (i16, i16)>,
    number: i32,
    calls: Arc<AtomicU64>,
    /// When the broker wants another login.
    until: Option<Instant>,
}

impl Connection {
    /// Connects, greets and logs in.
    pub async fn open(address: &Address, security: &Security, calls: Arc<AtomicU64>) -> Result<Self, SourceError> {
        let broker = format!("{}:{}", address.0, address.1);
        let tcp = TcpStream::connect((address.0.as_str(), address.1)).await.map_err(|error| unreachable(&broker, &error))?;
        // answers are awaited one by one
        let _ = tcp.set_nodelay(true);
        let stream: Box<dyn Stream> = match &security.tls {
            None => Box::new(tcp),
            Some(tls) => Box::new(tls.secure(tcp, &address.0).await.map_err(|error| error.at(&broker))?),
        };
        let mut connection = Self { stream, broker, versions: HashMap::new(), number: 0, calls, until: None };
        connection.greet(security.tls.is_some()).await?;
        if let Some(sasl) = &security.sasl {
            connection.log_in(sasl).await?;
        }
        Ok(connection)
    }

    /// False once the broker wants another login.
    pub fn is_usable(&self) -> bool {
        self.until.is_none_or(|until| clock::instant() < until)
    }

    /// The newest version of a call that both sides know, between these two.
    pub fn version(&self, key: ApiKey, oldest: i16, newest: i16) -> Option<i16> {
        let (min, max) = *self.versions.get(&(key as i16))?;
        let version = max.min(newest);
        (version >= min && version >= oldest).then_some(version)
    }

    /// Sends a call and reads its answer.
    pub async fn call<Q, A>(&mut self, key: ApiKey, version: i16, request: &Q) -> Result<A, SourceError>
    where
        Q: Encodable + HeaderVersion,
        A: Decodable + HeaderVersion,
    {
        let mut answer = self.exchange(key, version, request, A::header_version(version)).await?;
        A::decode(&mut answer, version).map_err(|_| self.unexpected(key))
    }

    /// Sends a call and gives the body of its answer.
    pub async fn exchange<Q: Encodable + HeaderVersion>(&mut self, key: ApiKey, version: i16, request: &Q, header: i16) -> Result<Bytes, SourceError> {
        let mut answer = self.send(key, version, Q::header_version(version), |buffer| request.encode(buffer, version)).await?;
        let found = ResponseHeader::decode(&mut answer, header).map_err(|_| self.unexpected(key))?;
        if found.correlation_id != self.number {
            return Err(self.unexpected(key));
        }
        Ok(answer)
    }

    async fn send(
        &mut self,
        key: ApiKey,
        version: i16,
        header_version: i16,
        body: impl FnOnce(&mut BytesMut) -> Result<(), anyhow::Error>,
    ) -> Result<Bytes, SourceError> {
        self.number = self.number.wrapping_add(1);
        let header = RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_correlation_id(self.number)
            .with_client_id(Some(StrBytes::from_static_str("loadline")));
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        let encoded = header.encode(&mut frame, header_version).and_then(|()| body(&mut frame));
        let length = i32::try_from(frame.len().saturating_sub(4)).ok().filter(|_| encoded.is_ok());
        let length = length.ok_or_else(|| SourceError::new(FailureKind::Unexpected, format!("the call {key:?} cannot be written in version {version}")))?;
        if let Some(place) = frame.get_mut(..4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.stream.write_all(&frame).await.map_err(|error| broken(&self.broker, &error))?;
        self.stream.flush().await.map_err(|error| broken(&self.broker, &error))?;
        let length = self.stream.read_i32().await.map_err(|error| broken(&self.broker, &error))?;
        let length = usize::try_from(length).ok().filter(|length| *length >= 4).ok_or_else(|| self.unexpected(key))?;
        if length > MAX_FRAME_BYTES {
            let message = format!("the answer of {} to {key:?} is {length} bytes long: expected at most {MAX_FRAME_BYTES}, from a Kafka broker", self.broker);
            return Err(SourceError::new(FailureKind::TooLarge, message));
        }
        // grows with what arrives, not with what was announced
        let mut answer = BytesMut::new();
        let mut rest = (&mut self.stream).take(length as u64);
        while answer.len() < length {
            let read = rest.read_buf(&mut answer).await.map_err(|error| broken(&self.broker, &error))?;
            if read == 0 {
                return Err(broken(&self.broker, &std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(answer.freeze())
    }

    /// Asks which calls the broker knows, in which versions. One that is older than our question answers in the oldest form.
    async fn greet(&mut self, tls: bool) -> Result<(), SourceError> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("loadline"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let hint = if tls { "is it a Kafka broker?" } else { "is it a Kafka broker, and does this port want TLS?" };
        let ask = self.exchange(ApiKey::ApiVersions, 3, &request, 0).await;
        let mut answer = ask.map_err(|error| SourceError { message: format!("{}: {hint}", error.message), ..error })?;
        let mut version = 3;
        let refused = answer.get(..2).is_some_and(|mut code| code.get_i16() == UNSUPPORTED_VERSION);
        if refused {
            version = 0;
            answer = self.exchange(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default(), 0).await?;
        }
        let answer = ApiVersionsResponse::decode(&mut answer, version).map_err(|_| self.unexpected(ApiKey::ApiVersions))?;
        self.versions = answer.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect();
        Ok(())
    }

    async fn log_in(&mut self, sasl: &Sasl) -> Result<(), SourceError> {
        let mechanism = sasl.mechanism();
        let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism));
        let offered: SaslHandshakeResponse = self.call(ApiKey::SaslHandshake, 1, &request).await?;
        if offered.error_code != 0 {
            let offered: Vec<&str> = offered.mechanisms.iter().map(StrBytes::as_str).take(10).collect();
            let message = format!("{} takes no login by {mechanism}: expected one of {}", self.broker, offered.join(", "));
            return Err(SourceError::new(FailureKind::Unauthorized, message));
        }
        let secret = sasl.secret().await?;
        match sasl {
            Sasl::Plain(account) => {
                self.authenticate(plain(&account.username, &secret), mechanism).await?;
            }
            Sasl::OAuthBearer(_) => {
                // what is wrong with a token comes as an answer, not as an error
                if !self.authenticate(bearer(&secret), mechanism).await?.is_empty() {
                    return Err(self.refused(mechanism));
                }
            }
            Sasl::ScramSha256(account) => self.scram(Hash::Sha256, &account.username, &secret, mechanism).await?,
            Sasl::ScramSha512(account) => self.scram(Hash::Sha512, &account.username, &secret, mechanism).await?,
        }
        Ok(())
    }

    async fn scram(&mut self, hash: Hash, username: &str, password: &secrecy::SecretString, mechanism: &str) -> Result<(), SourceError> {
        let broker = self.broker.clone();
        let wrong = |what: &str| SourceError::new(FailureKind::Unauthorized, format!("the login by {mechanism} at {broker} failed: {what}"));
        let mut scram = Scram::begin(hash, username).map_err(wrong)?;
        let challenge = self.authenticate(scram.first(), mechanism).await?;
        let second = scram.second(&challenge, password).map_err(wrong)?;
        let last = self.authenticate(second, mechanism).await?;
        if scram.is_proven(&last) { Ok(()) } else { Err(wrong("the broker does not prove that it knows the password")) }
    }

    async fn authenticate(&mut self, message: Vec<u8>, mechanism: &str) -> Result<Bytes, SourceError> {
        let version = self.version(ApiKey::SaslAuthenticate, 0, SaslAuthenticateRequest::VERSIONS.max).unwrap_or(0);
        let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(message));
        let answer: SaslAuthenticateResponse = self.call(ApiKey::SaslAuthenticate, version, &request).await?;
        if answer.error_code != 0 {
            return Err(self.refused(mechanism));
        }
        if let Ok(lifetime) = u64::try_from(answer.session_lifetime_ms)
            && lifetime > 0
        {
            self.until = Some(clock::instant() + Duration::from_millis(lifetime) * 4 / 5);
        }
        Ok(answer.auth_bytes)
    }

    fn refused(&self, mechanism: &str) -> SourceError {
        SourceError::new(FailureKind::Unauthorized, format!("{} refuses the login by {mechanism}: expected a user and a secret that it knows", self.broker))
    }

    fn unexpected(&self, key: ApiKey) -> SourceError {
        SourceError::new(FailureKind::Unexpected, format!("{} answers {key:?} in another form than documented", self.broker))
    }
}

fn unreachable(broker: &str, error: &std::io::Error) -> SourceError {
    let message = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused",
        std::io::ErrorKind::ConnectionReset => "connection reset",
        _ => "no connection: the host is not known or does not answer",
    };
    SourceError::new(FailureKind::Unreachable, format!("{message} ({broker})"))
}

fn broken(broker: &str, error: &std::io::Error) -> SourceError {
    let message = match error.kind() {
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => "the broker closed the connection before its answer was complete",
        _ => "the connection broke before the answer was complete",
    };
    SourceError::new(FailureKind::Unreachable, format!("{message} ({broker})"))
}
