//! Pure: the two rules of the fence row. Adapters read the row and ask here; the model of the protocol asks the same code
//! (`tests/model`).
//!
//! 1. A claim wins with a higher generation, or as the same owner again. Never with an equal one alone: two claimants of one
//!    generation would take the row from each other in turns.
//! 2. A write passes if the row still holds its very claim.
//! 3. Where a claim announces itself before it waits for the writers in flight (its intent), an announced claim that is
//!    newer than the row fences the row's owner, and an older claim than the announced one does not win.

use super::ClaimRefused;

/// A partition's row in the store, with whatever names an owner there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<O> {
    /// Raised by an operator only.
    pub epoch: u64,
    /// Of the last claim that won; 0 if none has.
    pub generation: u64,
    /// Who won it.
    pub owner: O,
    /// Minted when it was won.
    pub claim: u64,
    /// No claim wins and no write passes any more.
    pub closed: bool,
    /// Epoch and generation of the newest claim that announced itself, in a store where claims do.
    pub announced: Option<(u64, u64)>,
}

/// Who asks for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant<O> {
    /// The epoch that its session was opened in.
    pub epoch: u64,
    /// Of its assignment.
    pub generation: u64,
    /// Fresh for each claim.
    pub owner: O,
}

/// How a claim won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Won {
    /// The row was another claim's.
    Anew,
    /// This very claim had won before, and its answer was lost.
    Again,
}

impl<O: PartialEq> Row<O> {
    /// Whether the row is this claimant's to take.
    ///
    /// # Errors
    /// [`ClaimRefused`], with what the row said.
    pub fn decide(&self, claimant: &Claimant<O>) -> Result<Won, ClaimRefused> {
        let mine = claimant.generation;
        if self.epoch != claimant.epoch {
            return Err(ClaimRefused::OtherEpoch);
        }
        if self.closed {
            return Err(ClaimRefused::Closed);
        }
        if self.generation > mine || self.announced.is_some_and(|newest| newest > (claimant.epoch, mine)) {
            return Err(ClaimRefused::RowAhead);
        }
        if self.generation < mine {
            return Ok(Won::Anew);
        }
        if self.owner == claimant.owner { Ok(Won::Again) } else { Err(ClaimRefused::EqualGeneration) }
    }

    /// Whether a write under a claim that was won with these numbers passes.
    pub fn admits(&self, epoch: u64, generation: u64, claim: u64) -> bool {
        let held = (self.epoch, self.generation, self.claim) == (epoch, generation, claim);
        let overtaken = self.announced.is_some_and(|newest| newest > (epoch, generation));
        held && !self.closed && !overtaken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row<char> =
        Row { epoch: 2, generation: 5, owner: 'a', claim: 9, closed: false, announced: Some((2, 5)) };

    fn claims(row: &Row<char>, epoch: u64, generation: u64, owner: char) -> Result<Won, ClaimRefused> {
        row.decide(&Claimant { epoch, generation, owner })
    }

    #[test]
    fn a_claim_wins_with_a_higher_generation_or_as_the_same_owner_again() {
        assert_eq!(claims(&ROW, 2, 6, 'b'), Ok(Won::Anew));
        assert_eq!(claims(&ROW, 2, 5, 'a'), Ok(Won::Again));
        assert_eq!(claims(&ROW, 2, 5, 'b'), Err(ClaimRefused::EqualGeneration));
        assert_eq!(claims(&ROW, 2, 4, 'a'), Err(ClaimRefused::RowAhead));
        assert_eq!(claims(&ROW, 1, 6, 'a'), Err(ClaimRefused::OtherEpoch));
        assert_eq!(claims(&Row { closed: true, ..ROW }, 2, 6, 'a'), Err(ClaimRefused::Closed));
    }

    #[test]
    fn a_write_passes_only_while_the_row_holds_its_very_claim() {
        assert!(ROW.admits(2, 5, 9));
        assert!(!ROW.admits(1, 5, 9) && !ROW.admits(2, 4, 9) && !ROW.admits(2, 5, 8));
        assert!(!Row { closed: true, ..ROW }.admits(2, 5, 9));
    }

    #[test]
    fn an_announced_claim_fences_the_owner_and_older_claimants() {
        let announced = Row { announced: Some((2, 7)), ..ROW };
        assert!(!announced.admits(2, 5, 9));
        assert_eq!(claims(&announced, 2, 6, 'b'), Err(ClaimRefused::RowAhead));
        assert_eq!(claims(&announced, 2, 7, 'b'), Ok(Won::Anew));
        // What was announced before a reset of the fence counts no more.
        assert_eq!(claims(&Row { announced: Some((1, 7)), ..ROW }, 2, 6, 'b'), Ok(Won::Anew));
    }
}
