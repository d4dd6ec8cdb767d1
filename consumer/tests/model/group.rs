//! The group's steps: who is a member, whose the partition is, and who is told.

use super::{
    protocol::{Protocol, Step},
    world::{Broken, Given, Id, Life, Told, World},
};

/// No run within the bounds needs more joins than this.
const LAST_GENERATION: u8 = 20;

impl Protocol {
    pub(crate) fn group_steps(&self, world: &World, steps: &mut Vec<Step>) {
        let group = &world.group;
        for id in Id::ALL {
            let worker = world.worker(id);
            match group.seats[id as usize] {
                None if worker.is_up() && worker.seat.is_none() => steps.push(Step::Join(id)),
                None => {}
                Some(seat) => {
                    if group.owner.is_none() {
                        steps.push(Step::Give(id));
                    }
                    // It is silent: gone, frozen, or another process than the one that joined.
                    if worker.life != Life::Up || worker.seat != Some(seat) {
                        steps.push(Step::Expel(id));
                    }
                }
            }
        }
    }

    pub(crate) fn join(&self, world: &mut World, id: Id) {
        let worker = world.worker_mut(id);
        worker.seat = Some(worker.next_seat);
        worker.next_seat = !worker.next_seat;
        world.group.seats[id as usize] = worker.seat;
        if world.group.owner.is_some() {
            self.move_on(world);
            tell_moved_on(world, id.other());
        }
    }

    /// The free partition goes to a member.
    pub(crate) fn give(&self, world: &mut World, id: Id) {
        self.move_on(world);
        give_now(world, id);
        tell_moved_on(world, id.other());
    }

    pub(crate) fn expel(&self, world: &mut World, id: Id) {
        world.group.seats[id as usize] = None;
        if world.group.owner == Some(id) {
            world.group.owner = None;
        }
    }

    pub(crate) fn move_away(&self, world: &mut World, from: Id) {
        tell(world, from, Told::Lost);
        self.move_on(world);
        give_now(world, from.other());
    }

    /// The first member reads the new number for its old assignment, and no word ever tells it of its loss.
    pub(crate) fn deal_twice(&self, world: &mut World, first: Id) {
        self.move_on(world);
        let generation = world.group.generation;
        let unheard = world.worker_mut(first).inbox.unheard().expect("the assign is unanswered");
        unheard.generation = generation;
        give_now(world, first.other());
    }

    /// The number does not move on.
    pub(crate) fn take_seat(&self, world: &mut World, first: Id) {
        world.group.seats[first as usize] = None;
        let next = first.other();
        let worker = world.worker_mut(next);
        worker.seat = Some(worker.next_seat);
        worker.next_seat = !worker.next_seat;
        world.group.seats[next as usize] = worker.seat;
        give_now(world, next);
    }

    pub(crate) fn restart_group(&self, world: &mut World) {
        let group = &mut world.group;
        (group.generation, group.owner, group.seats) = (0, None, [None; 2]);
        group.truth_restarts += 1;
    }

    fn move_on(&self, world: &mut World) {
        world.group.generation += 1;
        if world.group.generation > LAST_GENERATION {
            world.break_by(Broken::NoEnd);
        }
    }
}

fn give_now(world: &mut World, id: Id) {
    let group = &mut world.group;
    group.owner = Some(id);
    group.truth_gives += 1;
    let given =
        Given { generation: group.generation, truth_restarts: group.truth_restarts, truth_give: group.truth_gives };
    tell(world, id, Told::Assigned(given));
}

fn tell_moved_on(world: &mut World, id: Id) {
    tell(world, id, Told::MovedOn(world.group.generation));
}

/// A process that is not the member that the group means hears nothing.
fn tell(world: &mut World, id: Id, told: Told) {
    let seat = world.group.seats[id as usize];
    let worker = world.worker_mut(id);
    if seat.is_some() && worker.seat == seat {
        worker.inbox.push(told);
    }
}
