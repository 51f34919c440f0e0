//! The rule by which peers share the buffers of a pool. A peer that takes no messages holds the
//! buffers of the messages to it; the rule keeps buffers available for the other peers.

/// Whether a peer that holds `held` buffers of a pool may take another one while `free` are free: a
/// peer holds at most as many as it leaves free, after the dynamic thresholds of Choudhury and
/// Hahne (1998). Of 128 buffers one peer gets at most 64, and 7 peers that return no buffers leave
/// one to the others. A tighter rule defers messages to peers that are only slow.
pub fn allows(held: usize, free: usize) -> bool {
    held < free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_give_nothing_back_leave_buffers_to_others() {
        let (mut free, mut held) = (128, Vec::new());
        while free > 0 {
            let mut own = 0;
            while allows(own, free) {
                (own, free) = (own + 1, free - 1);
            }
            held.push(own);
        }
        assert_eq!((held[0], held.len()), (64, 8), "{held:?}");
    }
}
