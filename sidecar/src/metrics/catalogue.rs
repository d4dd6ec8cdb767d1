//! Every metric, made from `metrics.toml` by the build script.

use super::{Kind, Metric};

include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));
