//! Reads the contract of KEDA's external scaler and writes its messages and the service's trait, without protoc.

use std::path::PathBuf;
use std::{env, fs};

const PROTO: &str = "proto/externalscaler.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let files = protox::compile([PROTO], ["proto"])?;
    // for those who ask the service what it can do
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("externalscaler.bin"), protox::prost::Message::encode_to_vec(&files))?;
    tonic_prost_build::configure().build_client(false).build_transport(false).compile_fds(files)?;
    Ok(())
}
