//! Circles of ranks that wait for each other. A rank in a call needs every rank for which the call
//! waits, so a circle never ends: each of its ranks needs the next one, which is in a call too.

use super::{Awaited, Waits};

impl Waits<'_> {
    /// The ranks without which the present call of `rank` does not end; none if the rank does not
    /// wait, or waits for ranks that are not known.
    fn needs(self, rank: usize) -> Vec<usize> {
        if self.turn(rank).is_none() {
            return Vec::new();
        }
        match self.awaited(rank) {
            Awaited::Rank(peer) if peer < self.ranks => vec![peer],
            Awaited::Lock(lock) => self.holders(rank, self.window(rank), lock).collect(),
            Awaited::Meeting(ranks) if ranks == self.ranks => {
                (0..ranks).filter(|&other| other != rank && !self.meet(rank, other)).collect()
            }
            Awaited::Unknown | Awaited::Rank(_) | Awaited::Meeting(_) => Vec::new(),
        }
    }

    /// Ranks of which each waits for the next, and the last for the first, with the numbers of
    /// their calls.
    pub(super) fn circle(self) -> Option<Vec<(usize, u64)>> {
        let needs: Vec<_> = (0..self.ranks).map(|rank| self.needs(rank)).collect();
        // Ranks from which no circle is reached.
        let mut is_clear = vec![false; self.ranks];
        for first in 0..self.ranks {
            let mut path: Vec<usize> = Vec::new();
            // The rank to visit next, or the number of ranks of the path that stay.
            let mut steps = vec![(first, 0)];
            while let Some((rank, depth)) = steps.pop() {
                path.drain(depth..).for_each(|left: usize| is_clear[left] = true);
                if let Some(start) = path.iter().position(|&on| on == rank) {
                    let with_turn = |&rank: &usize| self.turn(rank).map(|turn| (rank, turn));
                    return path[start..].iter().map(with_turn).collect();
                }
                if !is_clear[rank] {
                    path.push(rank);
                    steps.extend(needs[rank].iter().map(|&next| (next, path.len())));
                }
            }
            path.into_iter().for_each(|left| is_clear[left] = true);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use transom_fabric::Memory;

    use super::super::{Held, Wait, bytes};
    use super::*;

    const EXCLUSIVE: fn(usize) -> Held = |target| Held { target: Some(target), is_exclusive: true };
    const SHARED: fn(usize) -> Held = |target| Held { target: Some(target), is_exclusive: false };
    const ALL: Held = Held { target: None, is_exclusive: false };

    /// A job in which each rank holds these locks of window 5, and waits for this.
    fn circle(ranks: &[(&[Held], Option<Awaited>)]) -> Option<Vec<usize>> {
        let memory = Memory::private(bytes(ranks.len()));
        let waits = Waits { memory: &memory, base: 0, ranks: ranks.len() };
        for (rank, (held, awaited)) in ranks.iter().enumerate() {
            held.iter().for_each(|&held| waits.holds(rank, 5, held));
            if let Some(awaited) = *awaited {
                let call = if matches!(awaited, Awaited::Meeting(_)) { "fence" } else { "other" };
                waits.begin(rank, &Wait { call, window: Some(5), awaited }, "here");
            }
        }
        Some(waits.circle()?.into_iter().map(|(rank, _)| rank).collect())
    }

    fn lock(held: Held) -> Option<Awaited> {
        Some(Awaited::Lock(held))
    }

    fn rank(rank: usize) -> Option<Awaited> {
        Some(Awaited::Rank(rank))
    }

    #[test]
    fn ranks_that_need_each_other_are_a_circle() {
        let (zero, one) = ([EXCLUSIVE(0)], [EXCLUSIVE(1)]);
        let nested = [(&zero[..], lock(EXCLUSIVE(1))), (&one[..], lock(EXCLUSIVE(0)))];
        assert_eq!(circle(&nested), Some(vec![0, 1]));
        assert_eq!(circle(&[nested[0], nested[1], (&[], None)]), Some(vec![0, 1]), "rank 2 computes");
        assert_eq!(circle(&[(&[], rank(1)), (&[], rank(2)), (&[], rank(1))]), Some(vec![1, 2]), "rank 0 waits for it");
        assert_eq!(circle(&[(&[ALL], rank(1)), (&[], lock(EXCLUSIVE(0)))]), Some(vec![0, 1]), "lock_all excludes");
        assert_eq!(circle(&[(&zero, rank(1)), (&[], lock(ALL))]), Some(vec![0, 1]), "lock_all is excluded");
        let shared = [SHARED(2)];
        assert_eq!(circle(&[(&shared, rank(1)), (&[], lock(EXCLUSIVE(2)))]), Some(vec![0, 1]));
        let fence = Some(Awaited::Meeting(3));
        assert_eq!(circle(&[(&[], fence), (&[], rank(0)), (&[], None)]), Some(vec![0, 1]), "a fence that one lacks");
    }

    #[test]
    fn a_rank_that_may_go_on_ends_a_chain() {
        let (zero, one) = ([EXCLUSIVE(0)], [EXCLUSIVE(1)]);
        assert_eq!(circle(&[(&zero, lock(EXCLUSIVE(1))), (&one, None)]), None, "the holder computes");
        assert_eq!(circle(&[(&zero, lock(EXCLUSIVE(1))), (&one, Some(Awaited::Unknown))]), None, "of another library");
        assert_eq!(circle(&[(&zero, lock(EXCLUSIVE(1))), (&one, lock(EXCLUSIVE(1)))]), None, "nobody else holds it");
        assert_eq!(circle(&[(&[SHARED(0)], rank(1)), (&[], lock(SHARED(0)))]), None, "two readers");
        assert_eq!(circle(&[(&[], rank(1)), (&[], rank(2)), (&[], None)]), None);
        let fence = Some(Awaited::Meeting(2));
        assert_eq!(circle(&[(&[], fence), (&[], fence)]), None, "all are there");
        assert_eq!(circle(&[(&[], Some(Awaited::Meeting(0))), (&[], rank(0))]), None, "who meets is not known");
        assert_eq!(circle(&[(&[], rank(9))]), None);
        // All ranks need all others that come later: many paths, none of them a circle.
        let locks: Vec<_> = (0..24).map(EXCLUSIVE).collect();
        let all: Vec<_> = (0..24).map(|at| (&locks[at..=at], if at < 23 { lock(ALL) } else { None })).collect();
        assert!(circle(&all).is_some(), "lock_all of a rank that holds a lock waits for the others'");
        let chain: Vec<(&[Held], _)> = (1..24).map(|at| (&[][..], rank(at))).chain([(&[][..], None)]).collect();
        assert_eq!(circle(&chain), None);
    }

    #[test]
    fn a_released_lock_has_no_holder() {
        let memory = Memory::private(bytes(2));
        let waits = Waits { memory: &memory, base: 0, ranks: 2 };
        waits.holds(0, 5, EXCLUSIVE(1));
        waits.holds(0, 6, EXCLUSIVE(1));
        waits.begin(0, &Wait { call: "start", window: Some(5), awaited: Awaited::Rank(1) }, "here");
        waits.begin(1, &Wait { call: "lock", window: Some(5), awaited: Awaited::Lock(SHARED(1)) }, "here");
        assert!(waits.circle().is_some());
        waits.releases(0, 5, Some(1));
        assert!(waits.circle().is_none(), "the lock of the other window does not count");
        (0..40).for_each(|target| waits.holds(0, 5, EXCLUSIVE(target)));
        (0..40).for_each(|target| waits.releases(0, 5, Some(target)));
        waits.holds(0, 5, ALL);
        waits.releases(0, 5, None);
        assert!(waits.circle().is_none());
    }
}
