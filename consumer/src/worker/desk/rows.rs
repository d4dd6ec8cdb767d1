//! An owner that has nothing to write looks at its rows all the same: what came of its claims is known within a second or so,
//! also after a store came back without the last of them, and jobs that were lost with it run again.

use std::sync::Arc;

use super::Desk;
use crate::{
    error::Error, fence::Fence, handler::Handler, notice::Notice, ownership::Holding, store::FencedStore, worker::clerk,
};

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    /// Has the clerk look, unless it has not come to the last look yet.
    pub(super) fn look_at_rows(&mut self) {
        let heeds = self.settings.guards.look && self.settings.guards.let_go;
        if heeds && !self.for_clerk.iter().any(|order| matches!(order, clerk::Order::Stand(_))) {
            let fences = self.tenancies.values().map(|tenancy| Arc::clone(&tenancy.fence)).collect();
            self.for_clerk.push_back(clerk::Order::Stand(fences));
        }
    }

    /// The claims that the store does not know any more.
    pub(super) fn stood(&mut self, outcome: Result<Vec<Arc<Fence>>, Error>) -> Result<(), Error> {
        let gone = match outcome {
            Ok(gone) => gone,
            Err(error) if error.is_transient() => {
                self.is_away("the store", &error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // It answers; but whoever waits for it to take something has not heard so.
        let claiming = self.ownership.holdings().any(|(.., holding)| holding == Holding::Claiming);
        if !claiming && !self.outbox.waits_for_store() {
            self.is_back("the store");
        }
        for fence in gone {
            let partition = fence.partition();
            let held = self.tenancies.get(&partition).filter(|tenancy| Arc::ptr_eq(&tenancy.fence, &fence));
            if let Some(tenure) = held.map(|tenancy| tenancy.tenure) {
                self.count_lost(1);
                (self.notices)(Notice::Lost(vec![partition]));
                let actions = self.ownership.fenced(partition, tenure);
                self.carry_out(actions);
            }
        }
        Ok(())
    }
}
