//! What others see: the HTTP interface with its page, the metrics, and KEDA's gRPC. Everything here reads the advice store or judges
//! a posted request; nothing here asks a source or keeps anything.

pub mod external_metrics;
pub mod http;
pub mod keda;
pub mod metrics;
mod page;
pub mod tls;
