//! Pure: which member each partition should have. Every member's transaction computes the same from the same rows, so
//! nobody leads.
//!
//! 1. Complete: every partition gets a member.
//! 2. Balanced: sizes differ by at most one.
//! 3. Sticky: of all balanced plans, one that moves the fewest of the partitions that are held.
//! 4. Deterministic: only the order of members and of partitions decides.

/// Plans for members `0..members` (at least one), in an order that all agree on. `held[p]` is the member that partition
/// `p` stays with if balance allows; `None` is dealt anew. The answer has a member for each partition.
pub(super) fn plan(members: usize, held: &[Option<usize>]) -> Vec<usize> {
    let mut room = quotas(members, held);
    let mut planned: Vec<Option<usize>> = held
        .iter()
        .map(|holder| {
            let holder = (*holder)?;
            (room[holder] > 0).then(|| {
                room[holder] -= 1;
                holder
            })
        })
        .collect();
    for place in planned.iter_mut().filter(|p| p.is_none()) {
        let roomiest = (0..members).rev().max_by_key(|&m| room[m]).expect("there is at least one member");
        room[roomiest] -= 1;
        *place = Some(roomiest);
    }
    planned.into_iter().map(|p| p.expect("every partition was dealt")).collect()
}

/// How many each member gets. The odd ones go to those who hold most already, so that they need not give one up.
fn quotas(members: usize, held: &[Option<usize>]) -> Vec<usize> {
    let mut holds = vec![0_usize; members];
    for holder in held.iter().flatten() {
        holds[*holder] += 1;
    }
    let mut by_load: Vec<usize> = (0..members).collect();
    by_load.sort_by_key(|&m| std::cmp::Reverse(holds[m]));
    let mut quota = vec![held.len() / members; members];
    for &member in by_load.iter().take(held.len() % members) {
        quota[member] += 1;
    }
    quota
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held() -> impl Strategy<Value = (usize, Vec<Option<usize>>)> {
        (1..9_usize).prop_flat_map(|members| {
            (Just(members), proptest::collection::vec(proptest::option::of(0..members), 0..40))
        })
    }

    fn sizes(members: usize, plan: &[usize]) -> Vec<usize> {
        (0..members).map(|m| plan.iter().filter(|&&p| p == m).count()).collect()
    }

    /// The most that any balanced plan can leave where it is: each member keeps up to the floor, and as many as there are
    /// odd partitions keep one more.
    fn most_that_can_stay(members: usize, held: &[Option<usize>]) -> usize {
        let (floor, odd) = (held.len() / members, held.len() % members);
        let holds: Vec<usize> = (0..members).map(|m| held.iter().filter(|&&h| h == Some(m)).count()).collect();
        holds.iter().map(|&h| h.min(floor)).sum::<usize>() + holds.iter().filter(|&&h| h > floor).count().min(odd)
    }

    proptest! {
        #[test]
        fn every_plan_is_complete_and_balanced((members, held) in held()) {
            let plan = plan(members, &held);
            prop_assert_eq!(plan.len(), held.len());
            let sizes = sizes(members, &plan);
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{:?}", sizes);
        }

        #[test]
        fn every_plan_moves_as_little_as_balance_allows((members, held) in held()) {
            let stayed = plan(members, &held).iter().zip(&held).filter(|(p, h)| **h == Some(**p)).count();
            prop_assert_eq!(stayed, most_that_can_stay(members, &held));
        }

        #[test]
        fn a_plan_carried_out_is_planned_again((members, held) in held()) {
            let first = plan(members, &held);
            let carried_out: Vec<_> = first.iter().copied().map(Some).collect();
            prop_assert_eq!(plan(members, &carried_out), first);
        }

        #[test]
        fn the_same_rows_give_the_same_plan((members, held) in held()) {
            prop_assert_eq!(plan(members, &held), plan(members, &held));
        }
    }

    #[test]
    fn a_second_member_gets_half_and_the_first_keeps_half() {
        let plan = plan(2, &[Some(0), Some(0), Some(0), Some(0)]);
        assert_eq!(plan, [0, 0, 1, 1]);
    }
}
