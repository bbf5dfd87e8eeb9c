//! What others see: HTTP and metrics.
