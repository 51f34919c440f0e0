//! One set of tests over the transport contract, run for every backend. Each test quotes the
//! sentence of the contract that it checks. Backends are known only through the three traits; a
//! [`Fixture`] opens one.

use std::sync::Arc;

use transom_fabric::{Domain, Memory, Peer, Port};

pub mod atomics;
pub mod completion;
pub mod get;
pub mod immediates;
#[allow(unsafe_code)]
mod lent;
pub mod limits;
pub mod messages;
pub mod put;
mod team;

pub use team::{Rank, Window, run};

/// Opens a backend for a test.
pub trait Fixture: Sync {
    /// The backend's domain.
    type Domain: Domain;

    /// The backend and its options, for reports.
    fn name(&self) -> String;

    /// The domains of `ranks` ranks, each connected to all ranks including itself.
    fn open(&self, ranks: usize) -> Vec<Arc<Self::Domain>>;

    /// The orders that the backend must promise, and no others.
    fn orders(&self) -> Orders;

    /// Zeroed memory of the kind from which windows are allocated.
    fn memory(&self, domain: &Self::Domain, len: usize) -> Memory;
}

/// The orders that a port may promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Messages follow puts: [`Limits::ordered`](transom_fabric::Limits::ordered).
    pub messages: bool,
    /// Atomics follow puts: [`Limits::amos_ordered`](transom_fabric::Limits::amos_ordered).
    pub atomics: bool,
    /// Atomics on one location follow each other:
    /// [`Limits::amos_in_order`](transom_fabric::Limits::amos_in_order).
    pub atomics_of_a_location: bool,
    /// Puts may carry a number: [`Limits::immediates`](transom_fabric::Limits::immediates).
    pub immediates: bool,
}

/// The numbers of `ranks` ranks.
///
/// # Panics
/// If there are 2^32 or more.
pub fn peers(ranks: usize) -> impl Iterator<Item = Peer> {
    (0..u32::try_from(ranks).expect("few ranks")).map(Peer)
}

/// Connects each domain to all domains, in the order of the ranks.
///
/// # Panics
/// If the backend refuses the address of its own port.
pub fn connect_all<D: Domain>(domains: &[Arc<D>]) {
    for domain in domains {
        for (peer, other) in peers(domains.len()).zip(domains) {
            domain.port().connect(peer, &other.port().address()).expect("an address of this backend");
        }
    }
}

/// Makes a `#[test]` of every conformance test; each runs over all fixtures that the expression
/// returns. With `ignored: "why";` before the expression the tests run only on request: for a
/// backend whose device is not on every machine.
#[macro_export]
macro_rules! conformance {
    (ignored: $why:literal; $fixtures:expr) => {
        $crate::conformance!(@tests [#[ignore = $why]] $fixtures);
    };
    ($fixtures:expr) => {
        $crate::conformance!(@tests [] $fixtures);
    };
    (@tests $attributes:tt $fixtures:expr) => {
        $crate::conformance!(@all $attributes $fixtures,
            put: inline_puts_are_whole, packed_puts_are_whole, registered_puts_are_whole,
                lists_are_put_one_after_another, outstanding_puts_keep_to_their_ranges;
            get: gets_are_whole, scattered_gets_fill_their_parts, lists_are_filled_one_after_another,
                gets_and_puts_of_different_ranges_overlap;
            atomics: every_kind_does_what_apply_says, tickets_are_given_once, compare_swap_increments_are_not_lost,
                atomics_follow_puts_where_promised, atomics_of_a_location_keep_order_where_promised, both_sides_report_the_same_atomics,
                device_atomics_are_coherent_with_the_cpu_where_promised;
            messages: messages_arrive_once, messages_of_every_length, messages_follow_puts_where_promised,
                a_handler_may_post, a_message_ends_a_wait, wake_ends_a_wait;
            immediates: immediates_follow_puts, settled_immediates_are_all_there;
            completion: again_is_not_counted, ten_thousand_operations_complete, targets_are_flushed_one_by_one,
                the_own_rank_is_a_target;
            limits: limits_are_consistent, connecting_twice_changes_nothing, foreign_keys_are_refused,
                regions_come_and_go;
        );
    };
    (@all $attributes:tt $fixtures:expr, $($topic:ident: $($test:ident),*;)*) => {
        $(mod $topic {
            use super::*;
            $($crate::conformance!(@one $attributes $fixtures, $topic, $test);)*
        })*
    };
    (@one [$($attribute:tt)*] $fixtures:expr, $topic:ident, $test:ident) => {
        #[test]
        $($attribute)*
        fn $test() {
            for fixture in $fixtures {
                $crate::$topic::$test(&fixture);
            }
        }
    };
}
