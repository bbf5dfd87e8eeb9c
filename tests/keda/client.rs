//! A client as KEDA is one. The messages are written here by hand from KEDA's published numbers, so that a slip in our own
//! contract would show.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
pub struct ScaledObject {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(map = "string, string", tag = "3")]
    pub metadata: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Active {
    #[prost(bool, tag = "1")]
    pub result: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Specs {
    #[prost(message, repeated, tag = "1")]
    pub specs: Vec<Spec>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Spec {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, tag = "2")]
    pub size: i64,
    #[prost(double, tag = "3")]
    pub size_float: f64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Question {
    #[prost(message, optional, tag = "1")]
    pub object: Option<ScaledObject>,
    #[prost(string, tag = "2")]
    pub metric: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Values {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
#[expect(clippy::struct_field_names, reason = "as KEDA calls them")]
pub struct Value {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int64, tag = "2")]
    pub value: i64,
    #[prost(double, tag = "3")]
    pub value_float: f64,
}

/// The `ScaledObject` of a target, as KEDA hands it over: the whole metadata of the trigger.
pub fn object(target: &str) -> ScaledObject {
    let metadata = [("target", target), ("scalerAddress", "loadline.ops.svc.cluster.local:9090")];
    ScaledObject {
        name: "orders-consumer".to_owned(),
        namespace: "shop".to_owned(),
        metadata: metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    }
}

/// One connection to one replica.
#[derive(Clone)]
pub struct Connection {
    channel: Channel,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address").connect_timeout(Duration::from_secs(5));
        Self { channel: endpoint.connect().await.expect("a connection") }
    }

    /// One that connects when it is first used, and anew whenever it has to.
    pub fn lazy(address: SocketAddr) -> Self {
        Self { channel: Endpoint::from_shared(format!("http://{address}")).expect("an address").connect_lazy() }
    }

    pub fn over(channel: Channel) -> Self {
        Self { channel }
    }

    async fn call<Q, A>(&self, method: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let call = grpc.unary(Request::new(question), PathAndQuery::from_static(method), ProstCodec::<Q, A>::default());
        // KEDA waits for ever; a test does not
        tokio::time::timeout(Duration::from_secs(20), call).await.expect("an answer within 20 s").map(tonic::Response::into_inner)
    }

    pub async fn spec(&self, object: &ScaledObject) -> Result<Specs, Status> {
        self.call("/externalscaler.ExternalScaler/GetMetricSpec", object.clone()).await
    }

    pub async fn metrics(&self, object: &ScaledObject, metric: &str) -> Result<Values, Status> {
        self.call("/externalscaler.ExternalScaler/GetMetrics", Question { object: Some(object.clone()), metric: metric.to_owned() }).await
    }

    pub async fn ask(&self, question: Question) -> Result<Values, Status> {
        self.call("/externalscaler.ExternalScaler/GetMetrics", question).await
    }

    pub async fn active(&self, object: &ScaledObject) -> Result<bool, Status> {
        self.call::<_, Active>("/externalscaler.ExternalScaler/IsActive", object.clone()).await.map(|active| active.result)
    }

    pub async fn stream(&self, object: &ScaledObject) -> Result<Streaming<Active>, Status> {
        self.streaming("/externalscaler.ExternalScaler/StreamIsActive", object.clone()).await
    }

    pub async fn spec_stream(&self, object: &ScaledObject) -> Result<Streaming<Specs>, Status> {
        self.streaming("/externalscaler.ExternalScaler/StreamMetricSpec", object.clone()).await
    }

    pub async fn streaming<Q, A>(&self, method: &'static str, question: Q) -> Result<Streaming<A>, Status>
    where
        Q: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let call = grpc.server_streaming(Request::new(question), PathAndQuery::from_static(method), ProstCodec::<Q, A>::default());
        tokio::time::timeout(Duration::from_secs(20), call).await.expect("an answer within 20 s").map(tonic::Response::into_inner)
    }

    pub async fn health(&self, service: &str) -> Result<i32, Status> {
        let asked = HealthQuestion { service: service.to_owned() };
        self.call::<_, Health>("/grpc.health.v1.Health/Check", asked).await.map(|health| health.status)
    }

    pub async fn watch_health(&self) -> Result<Streaming<Health>, Status> {
        self.streaming("/grpc.health.v1.Health/Watch", HealthQuestion { service: String::new() }).await
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct HealthQuestion {
    #[prost(string, tag = "1")]
    pub service: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Health {
    /// 1 is serving, 2 is not serving.
    #[prost(int32, tag = "1")]
    pub status: i32,
}

/// What one look of KEDA at a trigger gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// What the HPA compares the value with.
    pub size: f64,
    /// The value as a Quantity in thousandths, or why there is none.
    pub milli: Result<u64, Code>,
    /// Whether there is anything to do, or why that is not known.
    pub active: Result<bool, Code>,
    /// Calls that it took.
    pub calls: usize,
}

/// How KEDA asks: every poll and every sync of the HPA makes these calls in this order, and an error builds the scaler anew
/// and asks the pair once more.
pub struct Keda {
    replicas: Vec<Connection>,
    next: usize,
    object: ScaledObject,
}

impl Keda {
    /// Over all addresses that the name stands for, one after the other.
    pub fn over(replicas: Vec<Connection>, object: ScaledObject) -> Self {
        Self { replicas, next: 0, object }
    }

    fn turn(&mut self) -> Connection {
        let connection = self.replicas[self.next % self.replicas.len()].clone();
        self.next += 1;
        connection
    }

    /// One poll, or one sync: both are alike.
    pub async fn look(&mut self) -> Look {
        let mut calls = 1;
        let specs = self.turn().spec(&self.object.clone()).await.expect("GetMetricSpec never fails");
        let spec = specs.specs.first().expect("KEDA takes an empty specification for an error").clone();
        assert!(specs.specs.len() == 1, "several would be several metrics of the HPA: {specs:?}");
        assert!(spec.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'), "{} is a segment of a path", spec.name);
        let size = if spec.size_float > 0.0 { spec.size_float } else { spec.size as f64 };
        // the prefix that KEDA puts before the name is taken off again before it asks
        let mut pair = self.pair(&spec.name, &mut calls).await;
        if pair.is_err() {
            pair = self.pair(&spec.name, &mut calls).await;
        }
        let (milli, active) = pair.map_or_else(|code| (Err(code), Err(code)), |(milli, active)| (Ok(milli), Ok(active)));
        Look { size, milli, active, calls }
    }

    async fn pair(&mut self, metric: &str, calls: &mut usize) -> Result<(u64, bool), Code> {
        *calls += 1;
        let values = self.turn().metrics(&self.object.clone(), metric).await.map_err(|status| status.code())?;
        *calls += 1;
        let active = self.turn().active(&self.object.clone()).await.map_err(|status| status.code())?;
        Ok((values.values.iter().map(milli).sum(), active))
    }
}

/// A value as KEDA hands it to the HPA: the double where it is above zero, else the integer, in thousandths; what is not a
/// number, infinite or negative is nothing.
fn milli(value: &Value) -> u64 {
    let taken = if value.value_float > 0.0 { value.value_float } else { value.value as f64 };
    if taken.is_finite() && taken > 0.0 { (taken * 1000.0).round() as u64 } else { 0 }
}
