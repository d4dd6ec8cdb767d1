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

    /// The wrong place to look: the row is read before the transaction begins.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn looks_outside(&self) -> bool {
        #[cfg(test)]
        return self.twin.looks_outside;
        #[cfg(not(test))]
        false
    }

    /// A person's act on a line needs the line that the person saw.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test can change this rule"))]
    pub(super) fn acts_on_what_was_read(&self) -> bool {
        #[cfg(test)]
        return !self.twin.acts_unconditionally;
        #[cfg(not(test))]
        true
    }

    /// Where a test stops a writer that has looked at its fences and not begun its transaction.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "nothing but a test stops here"))]
    pub(super) fn before_begin(&self) {
        #[cfg(test)]
        if let Some(act) = &self.twin.before_begin {
            act();
        }
    }
}
