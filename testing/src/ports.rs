//! Free ports on loopback.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result};

/// Below the ranges from which systems give ports to outgoing connections (Linux: from 32768). A client that tries to reach a
/// killed broker would otherwise now and then be given the broker's own port, and keep it from coming back.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// So many that nobody has at this moment. Another process may take one before its broker does: start again with others.
pub(super) fn free(count: usize) -> Result<Vec<u16>> {
    let tries = std::iter::repeat_with(|| fastrand::u16(RANGE)).take(10_000);
    // Held until all are found, so that none is found twice.
    let held: Vec<_> =
        tries.filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()).take(count).collect();
    let ports: Vec<_> = held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<Result<_>>()?;
    (ports.len() == count).then_some(ports).context("no free ports between 20000 and 32000 on 127.0.0.1")
}
