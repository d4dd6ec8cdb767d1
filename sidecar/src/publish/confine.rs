//! Giving up the right to touch anything. After [`confine`] no thread that the process makes can connect out, send to an
//! address, open a socket, write to a file, start a program, or signal or look into another process, whatever code it runs.
//!
//! 1. seccomp refuses the calls with `EPERM`. It cannot read what lies behind a pointer, so calls whose address or flags do
//!    are refused altogether; `sendto` without an address is how an answer is sent, and stays.
//! 2. Landlock, where the kernel has it, leaves one folder to be read and what `/proc` says of the process itself, and refuses TCP a second time.
//! 3. Both hold for the rest of the process's life. It is called before there is a second thread.
//!
//! Not promised: files that the process's user may read stay readable without Landlock, so give it a user of its own.

mod calls;

use std::{collections::BTreeMap, path::Path};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// What the process gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The calls are refused.
    pub seccomp: bool,
    /// Files outside of the folder are closed too.
    pub landlock: bool,
}

/// It cannot be confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this kernel takes no seccomp filter, so the right to connect cannot be given up")]
pub struct Unconfined;

impl Confinement {
    /// Whether the process may go on: without the filter only if it was told so.
    ///
    /// # Errors
    /// [`Unconfined`]
    pub fn accepted(self, allow_unconfined: bool) -> Result<Self, Unconfined> {
        if self.seccomp || allow_unconfined { Ok(self) } else { Err(Unconfined) }
    }
}

/// Gives it up, and leaves the right to read below `folder`.
pub fn confine(folder: &Path) -> Confinement {
    let landlock = close_files(folder);
    let seccomp = filter().is_some_and(|program| seccompiler::apply_filter_all_threads(&program).is_ok());
    Confinement { seccomp, landlock }
}

fn filter() -> Option<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        calls::refused().into_iter().map(|call| (call, Vec::new())).collect();
    let an_address = condition(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_sendto, vec![an_address]);
    // Ending by its own hand is all that is left of signals.
    let another = condition(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, std::process::id().into())?;
    rules.insert(libc::SYS_tgkill, vec![another]);
    for (call, flags) in calls::opening() {
        let writes = [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC].map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            condition(flags, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)
        });
        rules.insert(call, writes.into_iter().collect::<Option<_>>()?);
    }
    let arch = std::env::consts::ARCH.try_into().ok()?;
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).ok()?.try_into().ok()
}

fn condition(argument: u8, length: SeccompCmpArgLen, is: SeccompCmpOp, value: u64) -> Option<SeccompRule> {
    SeccompRule::new(vec![SeccompCondition::new(argument, length, is, value).ok()?]).ok()
}

fn close_files(folder: &Path) -> bool {
    let closed = || -> Result<bool, Box<dyn std::error::Error>> {
        let abi = ABI::V4;
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(AccessNet::from_all(abi))?;
        let below = PathBeneath::new(PathFd::new(folder)?, AccessFs::from_read(abi));
        let itself = PathBeneath::new(PathFd::new("/proc/self")?, AccessFs::from_read(abi));
        let status = ruleset.create()?.add_rule(below)?.add_rule(itself)?.restrict_self()?;
        Ok(status.ruleset != RulesetStatus::NotEnforced)
    };
    closed().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_cannot_be_confined_goes_on_only_if_it_was_told_to() {
        let none = Confinement { seccomp: false, landlock: true };
        assert_eq!(none.accepted(false), Err(Unconfined));
        assert_eq!(none.accepted(true), Ok(none));
        let confined = Confinement { seccomp: true, landlock: false };
        assert_eq!(confined.accepted(false), Ok(confined));
    }
}
