//! Which of the store's rules stand. All of them, except in `demo` and in the twins that show what each one holds off.

use crate::fence::Guards;

/// The rules; only tests of this crate can name another than the row check.
#[derive(Clone)]
pub(super) struct Rules {
    /// A write must find its token in the row.
    pub(super) row: bool,
    #[cfg(test)]
    pub(super) twin: super::tests::Twin,
}

impl Rules {
    pub(super) fn standing(guards: Guards) -> Self {
        Self {
            row: guards.row,
            #[cfg(test)]
            twin: super::tests::Twin::default(),
        }
    }

    /// The wrong claim rule, `>=`: of two claimants of one generation each takes the row from the other.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn equal_generation_wins(&self) -> bool {
        #[cfg(test)]
        return self.twin.equal_generation_wins;
        #[cfg(not(test))]
        false
    }

    /// The wrong place to look: the row is read in a transaction of its own.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn looks_outside(&self) -> bool {
        #[cfg(test)]
        return self.twin.looks_outside;
        #[cfg(not(test))]
        false
    }

    /// The wrong way to look: the row is read and not locked.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn locks(&self) -> bool {
        #[cfg(test)]
        return !self.twin.does_not_lock;
        #[cfg(not(test))]
        true
    }

    /// The wrong claim: nobody is told that it comes.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn intends(&self) -> bool {
        #[cfg(test)]
        return !self.twin.does_not_intend;
        #[cfg(not(test))]
        true
    }

    /// The wrong trust: what was claimed before a fail-over holds after it, whatever was lost.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn heeds_timelines(&self) -> bool {
        #[cfg(test)]
        return !self.twin.ignores_timelines;
        #[cfg(not(test))]
        true
    }

    /// The wrong retry: a new connection takes no notice of what the lost one may still be doing.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn settles(&self) -> bool {
        #[cfg(test)]
        return !self.twin.does_not_settle;
        #[cfg(not(test))]
        true
    }

    /// The wrong isolation: what the database or the role has as its default.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn says_isolation(&self) -> bool {
        #[cfg(test)]
        return !self.twin.leaves_isolation;
        #[cfg(not(test))]
        true
    }

    /// The wrong act of a person: beside a write of the owner that is under way.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn holds_up_owners(&self) -> bool {
        #[cfg(test)]
        return !self.twin.acts_beside_owners;
        #[cfg(not(test))]
        true
    }

    /// The wrong word for a standby: a fault that no waiting ends.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn knows_standbys(&self) -> bool {
        #[cfg(test)]
        return !self.twin.knows_no_standby;
        #[cfg(not(test))]
        true
    }

    /// The wrong order: what nobody waits for is sent at the end of the transaction.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn keeps_order(&self) -> bool {
        #[cfg(test)]
        return !self.twin.sends_late;
        #[cfg(not(test))]
        true
    }

    /// All rules of a write stand.
    pub(super) fn are_whole(&self) -> bool {
        self.row && self.intends() && self.heeds_timelines() && !self.looks_outside()
    }

    /// Where a test stops a writer whose fence was checked and who has written nothing yet.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test stops here"))]
    pub(super) fn checked(&self) {
        #[cfg(test)]
        if let Some(act) = &self.twin.checked {
            act();
        }
    }
}
