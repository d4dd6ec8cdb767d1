//! This process itself, as Prometheus' client libraries name it.

use std::{fs, path::Path};

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use super::{Page, catalogue, ownership::seconds};
use crate::clock::Now;

/// The process, from when this was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnProcess {
    started: Now,
}

impl OwnProcess {
    pub(crate) fn new() -> Self {
        Self { started: Now::read() }
    }

    /// What cannot be read has no series.
    pub(crate) fn add_to(self, page: &mut Page) {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        page.add(&catalogue::PROCESS_CPU_SECONDS_TOTAL, &[], cpu);
        let own = Path::new("/proc/self");
        if let Ok(open) = fs::read_dir(own.join("fd")) {
            page.add(&catalogue::PROCESS_OPEN_FDS, &[], open.count() as f64);
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            page.add(&catalogue::PROCESS_MAX_FDS, &[], most as f64);
        }
        let pages = fs::read_to_string(own.join("statm")).unwrap_or_default();
        let mut pages = pages.split(' ').map_while(|pages| pages.parse::<u64>().ok());
        let size = rustix::param::page_size() as u64;
        if let (Some(all), Some(resident)) = (pages.next(), pages.next()) {
            page.add(&catalogue::PROCESS_VIRTUAL_MEMORY_BYTES, &[], (all * size) as f64);
            page.add(&catalogue::PROCESS_RESIDENT_MEMORY_BYTES, &[], (resident * size) as f64);
        }
        page.add(&catalogue::PROCESS_START_TIME_SECONDS, &[], seconds(self.started.wall_ms));
    }
}
