//! The ranks of each machine, in the notations of launchers: `PMI_process_mapping` of PMI-1, and
//! lists of ranks. Pure.

/// The ranks of `rank`'s machine, ascending, by a mapping such as `(vector,(0,2,4),(2,1,3))`. Each
/// block holds its first machine, its number of machines, and the ranks that each machine takes in
/// turn; the blocks repeat while ranks are left. `None` where the text is malformed.
pub(super) fn of_vector(text: &str, rank: usize, size: usize) -> Option<Vec<usize>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let inner = text.strip_prefix("(vector,(")?.strip_suffix("))")?;
    let block = |block: &str| {
        let numbers: Option<Vec<usize>> = block.split(',').map(|number| number.parse().ok()).collect();
        <[usize; 3]>::try_from(numbers?).ok().filter(|[_, machines, each]| *machines > 0 && *each > 0)
    };
    let blocks: Vec<[usize; 3]> = inner.split("),(").map(block).collect::<Option<_>>()?;
    let turns = blocks.iter().cycle().flat_map(|&[first, machines, each]| {
        // Saturating: an invalid number takes no more than `size` ranks.
        (0..machines).flat_map(move |machine| std::iter::repeat_n(first.saturating_add(machine), each))
    });
    let machines: Vec<usize> = turns.take(size).collect();
    let mine = *machines.get(rank)?;
    Some((0..size).filter(|&other| machines[other] == mine).collect())
}

/// The ranks of a list such as `0,1,5`, ascending; `None` where the text is malformed or lacks
/// `rank`.
pub(super) fn of_list(text: &str, rank: usize, size: usize) -> Option<Vec<usize>> {
    let ranks: Option<Vec<usize>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    let mut ranks = ranks?;
    ranks.sort_unstable();
    ranks.dedup();
    (ranks.contains(&rank) && ranks.iter().all(|&other| other < size)).then_some(ranks)
}

#[cfg(test)]
mod tests {
    use super::{of_list, of_vector};

    #[test]
    fn machines_of_every_mapping() {
        for (text, machines) in [
            ("(vector,(0,1,5))", &[0, 0, 0, 0, 0][..]),
            ("(vector,(0,2,2))", &[0, 0, 1, 1]),
            ("(vector,(0,2,1))", &[0, 1, 0, 1, 0]),
            ("(vector, (0,1,2), (1,2,1))", &[0, 0, 1, 2]),
            // A machine that occurs twice.
            ("(vector,(0,2,1),(0,1,2))", &[0, 1, 0, 0]),
        ] {
            for rank in 0..machines.len() {
                let mine = (0..machines.len()).filter(|&other| machines[other] == machines[rank]);
                assert_eq!(of_vector(text, rank, machines.len()), Some(mine.collect()), "{text}, rank {rank}");
            }
        }
    }

    #[test]
    fn malformed_mappings_give_none() {
        for text in
            ["", "(vector,)", "(vector,())", "(vector,(0,1))", "(vector,(0,0,1))", "(vector,(0,1,x))", "(list,(0,1,1))"]
        {
            assert_eq!(of_vector(text, 0, 2), None, "{text}");
        }
        assert_eq!(of_vector("(vector,(18446744073709551615,9,1))", 0, 2), Some(vec![0, 1]), "no overflow");
    }

    #[test]
    fn lists_outside_the_job_or_without_this_rank_are_refused() {
        assert_eq!(of_list("5,0,1", 1, 6), Some(vec![0, 1, 5]));
        for (text, rank, size) in [("", 0, 1), ("0,1", 2, 3), ("0,7", 0, 2), ("0-3", 0, 4)] {
            assert_eq!(of_list(text, rank, size), None, "{text:?}");
        }
    }
}
