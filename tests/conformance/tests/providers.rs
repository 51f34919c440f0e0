//! The backend for libfabric with stand-ins for the providers of clusters, which behave as
//! documented and refuse calls that the documentation excludes: the contract's tests, and tests of
//! properties of `cxi`. The tests show the behaviour of the backend; they do not show that a device
//! works.
//!
//! Shows T3, T8.
//! Route: sim.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use transom_conformance::{Fixture, Orders, Window, conformance, connect_all, peers, run};
use transom_fabric::devices::{Nodes, Place};
use transom_fabric::{AmoKind, Awaited, Coherence, Domain, Memory, Peer, Port, Post, Region, Tally, Width};
use transom_ofi::library::Library;
use transom_ofi::{OfiDomain, OfiOptions};

mod carried;
mod stand_in;

/// A provider by name.
struct Named(&'static str);

const CXI: Named = Named("cxi");

/// A provider that requires registered origin buffers.
const RXM: Named = Named("verbs;ofi_rxm");

/// All providers.
const ALL: [Named; 7] = [CXI, Named("efa"), Named("opx"), Named("psm3"), Named("shm"), Named("lnx"), RXM];

/// [`RXM`] in a process that may register one buffer beside its three pools and its window.
struct Locked;

/// A provider of a library of this version.
struct OfVersion((u32, u32), Named);

/// Opens the preferred provider for a rank, as a job without a chosen provider does.
fn open(rank: u32, devices: Option<&str>) -> Arc<OfiDomain> {
    let place = Place { before: vec![Nodes::own(); rank as usize], ..Place::alone() };
    let devices = devices.map(str::to_owned);
    let options = OfiOptions { rank: Peer(rank), place, devices, ..OfiOptions::default() };
    OfiDomain::open_of(&stand_in::library(), &options).expect("the stand-in is here")
}

impl Fixture for Named {
    type Domain = OfiDomain;

    fn name(&self) -> String {
        format!("ofi, a stand-in for {}", self.0)
    }

    fn open(&self, ranks: usize) -> Vec<Arc<OfiDomain>> {
        self.open_of(&stand_in::library(), ranks)
    }

    fn orders(&self) -> Orders {
        Orders { immediates: self.0 == "psm3", ..Orders::default() }
    }

    fn memory(&self, _domain: &OfiDomain, len: usize) -> Memory {
        Memory::private(len)
    }
}

impl Named {
    fn open_of(&self, library: &Arc<Library>, ranks: usize) -> Vec<Arc<OfiDomain>> {
        let open = |rank| {
            let options = OfiOptions { provider: Some(self.0.to_owned()), rank, ranks, ..OfiOptions::default() };
            OfiDomain::open_of(library, &options).expect("the stand-in is here")
        };
        let domains: Vec<_> = peers(ranks).map(open).collect();
        connect_all(&domains);
        domains
    }
}

impl Fixture for Locked {
    type Domain = OfiDomain;

    fn name(&self) -> String {
        format!("{} with little locked memory", RXM.name())
    }

    fn open(&self, ranks: usize) -> Vec<Arc<OfiDomain>> {
        stand_in::with_regions(5, || RXM.open(ranks))
    }

    fn orders(&self) -> Orders {
        RXM.orders()
    }

    fn memory(&self, domain: &OfiDomain, len: usize) -> Memory {
        RXM.memory(domain, len)
    }
}

impl Fixture for OfVersion {
    type Domain = OfiDomain;

    fn name(&self) -> String {
        format!("{} of libfabric {:?}", self.1.name(), self.0)
    }

    fn open(&self, ranks: usize) -> Vec<Arc<OfiDomain>> {
        self.1.open_of(&stand_in::library_of(self.0), ranks)
    }

    fn orders(&self) -> Orders {
        self.1.orders()
    }

    fn memory(&self, domain: &OfiDomain, len: usize) -> Memory {
        self.1.memory(domain, len)
    }
}

conformance!(super::ALL);

/// Each version of libfabric is asked for a version of the interface that it has, at most 1.17: the
/// stand-in refuses others.
/// Shows T3.
#[test]
fn each_version_is_asked_for_what_it_has() {
    for version in [(1, 15), (1, 17), (1, 22), (2, 0), (2, 5)] {
        for named in ALL {
            let fixture = OfVersion(version, named);
            transom_conformance::put::registered_puts_are_whole(&fixture);
            transom_conformance::messages::messages_of_every_length(&fixture);
        }
    }
}

/// `cxi` is the first provider tried. Ranks use its devices in turn, unless the user names one.
#[test]
fn cxi_is_preferred_and_ranks_are_distributed_over_devices() {
    let names = [0, 1, 2].map(|rank| open(rank, None).name());
    assert_eq!(names, ["cxi cxi0", "cxi cxi1", "cxi cxi0"]);
    assert_eq!(open(0, Some("cxi1")).name(), "cxi cxi1");
    assert_eq!((open(0, None).provider().as_str(), open(0, None).agreed().count()), ("cxi", 0));
    let cxi = Some("cxi".to_owned());
    let options = OfiOptions { provider: cxi, devices: Some("mlx5_0".into()), ..OfiOptions::default() };
    let error = OfiDomain::open_of(&stand_in::library(), &options).expect_err("a device of others");
    let error = format!("{error:#}");
    assert!(error.contains("cxi: no device can be used: cxi0 is excluded by TRANSOM_NET_DEVICES"), "{error}");
}

/// Ranks use the devices of `efa` and `opx` in turn. The devices of `verbs;ofi_rxm` may be of
/// different networks, so ranks use them in turn only if the user joins them.
/// Shows T3.
#[test]
fn ranks_are_distributed_over_devices_of_one_network() {
    let name = |provider: &str, devices: &str, rank| {
        let place = Place { near: Nodes(0), before: vec![Nodes(0); rank] };
        let (provider, devices) = (Some(provider.to_owned()), Some(devices.to_owned()));
        let options = OfiOptions { provider, devices, place, ..OfiOptions::default() };
        OfiDomain::open_of(&stand_in::library(), &options).expect("the stand-in is here").name()
    };
    let names = |provider, devices| [0, 1].map(|rank| name(provider, devices, rank));
    assert_eq!(names("efa", ""), ["efa rdmap0s6-rdm", "efa rdmap0s7-rdm"]);
    assert_eq!(names("opx", ""), ["opx ib0", "opx ib1"]);
    assert_eq!(names("verbs;ofi_rxm", ""), ["verbs;ofi_rxm mlx5_0"; 2]);
    assert_eq!(names("verbs;ofi_rxm", "mlx5_1,mlx5_0"), ["verbs;ofi_rxm mlx5_1"; 2]);
    assert_eq!(names("verbs;ofi_rxm", "mlx5_1+mlx5_0"), ["verbs;ofi_rxm mlx5_0", "verbs;ofi_rxm mlx5_1"]);
}

/// The provider reports manual progress; a target that makes no call is served nevertheless, which
/// the probe finds. Only the device's atomics are available.
/// Shows S5, T3.
#[test]
fn idle_targets_are_served_and_atomics_are_the_devices() {
    let domain = open(0, None);
    assert!(domain.port().limits().passive_target);
    let region = domain.register(&Memory::private(64)).expect("room");
    for kind in AmoKind::ALL {
        assert_eq!(
            [Width::W32, Width::W64].map(|width| region.amo(kind, width)),
            [Some(Coherence::DeviceOnly); 2],
            "{kind:?}"
        );
    }
}

/// The documentation of these providers states that the target's calls perform operations.
/// Shows S5, T3.
#[test]
fn idle_targets_of_other_providers_are_not_served() {
    for named in ALL.iter().filter(|named| !["cxi", RXM.0].contains(&named.0)) {
        let domains = named.open(1);
        assert_eq!((domains[0].port().limits().passive_target, domains[0].provider()), (false, named.0.to_owned()));
    }
}

/// If the device has no room for another fast region although keys are left, standard regions are
/// used; keys are reused.
#[test]
fn regions_with_slow_keys_work() {
    let domains = CXI.open(2);
    let (origin, target) = (domains[0].port(), &domains[1]);
    let memories: Vec<_> = (0..200).map(|_| Memory::private(16)).collect();
    let regions: Vec<_> = memories.iter().map(|memory| target.register(memory).expect("room for all")).collect();
    let keys: Vec<u64> = regions.iter().map(|region| region.key().0[1]).collect();
    assert_eq!(keys.iter().filter(|&&key| key < 100).count(), stand_in::FAST);
    let tally = Tally::new();
    for (number, region) in (0u8..).zip(&regions) {
        let remote = origin.import(Peer(1), &region.key()).expect("connected");
        assert!(matches!(origin.put_inline(&remote, 3, &[number], &tally), Post::Pending));
    }
    while !tally.idle() {
        origin.progress(&NoMessages).expect("the stand-in works");
    }
    assert!(tally.fault().is_none());
    for (number, memory) in (0u8..).zip(&memories) {
        let mut found = [0; 16];
        memory.read(0, &mut found);
        assert_eq!(
            (found[3], found.iter().filter(|&&byte| byte == 0).count()),
            (number, if number == 0 { 16 } else { 15 })
        );
    }
    drop(regions);
    let again: Vec<_> = memories.iter().map(|memory| target.register(memory).expect("room for all")).collect();
    assert!(again.iter().map(|region| region.key().0[1]).eq(keys), "the same keys again");
}

/// The user's list holds for every provider whose domains are devices. Regression: only `cxi` kept
/// to it.
/// Shows T3.
#[test]
fn the_users_devices_are_used_with_every_provider() {
    let open = |provider: &str, devices: &str| {
        let (provider, devices) = (Some(provider.to_owned()), Some(devices.to_owned()));
        OfiDomain::open_of(&stand_in::library(), &OfiOptions { provider, devices, ..OfiOptions::default() })
    };
    for (provider, device, domain) in [
        ("efa", "rdmap0s7", "rdmap0s7-rdm"),
        ("efa", "^rdmap0s6", "rdmap0s7-rdm"),
        ("opx", "hfi1_1", "ib1"),
        ("verbs;ofi_rxm", "mlx5_1,mlx5_0", "mlx5_1"),
        ("verbs;ofi_rxm", "", "mlx5_0"),
    ] {
        assert_eq!(open(provider, device).expect("the device is there").name(), format!("{provider} {domain}"));
    }
    for (provider, first, second) in
        [("efa", "rdmap0s6", "rdmap0s7"), ("opx", "hfi1_0", "hfi1_1"), ("verbs;ofi_rxm", "mlx5_0", "mlx5_1")]
    {
        let error = format!("{:#}", open(provider, "mlx5_9").expect_err("a device that is not there"));
        for device in [first, second] {
            assert!(error.contains(&format!("{device} is excluded by TRANSOM_NET_DEVICES")), "{error}");
        }
    }
}

/// The reasons of providers that come first and have devices are kept; providers without a device
/// give no reason.
/// Shows T3, T5.
#[test]
fn devices_that_are_not_used_are_named() {
    let open = |devices: &str| {
        let options = OfiOptions { devices: Some(devices.to_owned()), ..OfiOptions::default() };
        OfiDomain::open_of(&stand_in::library(), &options).expect("a device of a provider")
    };
    assert_eq!(open("cxi1").unused(), [""; 0]);
    let last = open("mlx5_1");
    let names: Vec<_> =
        last.unused().iter().filter_map(|reason| reason.split_once(": ")).map(|(name, _)| name).collect();
    assert_eq!((last.provider().as_str(), names), ("verbs;ofi_rxm", vec!["cxi", "efa", "opx"]));
}

/// A provider that is listed, but can't be opened, or that another rank can't open, is not used.
/// Regression: the job did not start.
/// Shows T3, T5.
#[test]
fn the_next_provider_is_used_if_one_cannot_be_opened() {
    let open =
        |options: &OfiOptions| stand_in::without_domains("cxi", || OfiDomain::open_of(&stand_in::library(), options));
    let opened = open(&OfiOptions::default()).expect("another provider");
    let reasons = opened.unused();
    assert_eq!((opened.provider().as_str(), reasons.len()), ("efa", 1));
    assert!(reasons[0].starts_with("cxi: ") && reasons[0].contains("fi_domain of provider cxi"), "{reasons:?}");
    let refused = vec![("efa".to_owned(), "rank 3: no free context".to_owned())];
    let opened = open(&OfiOptions { refused, ..OfiOptions::default() }).expect("another provider");
    assert_eq!((opened.provider().as_str(), opened.unused()[1].as_str()), ("opx", "efa: rank 3: no free context"));
    let named = OfiOptions { provider: Some("cxi".into()), ..OfiOptions::default() };
    let error = format!("{:#}", open(&named).expect_err("the provider that the user names"));
    assert!(error.contains("fi_domain of provider cxi"), "{error}");
    let chosen = OfiOptions { chosen: Some("opx".into()), ..OfiOptions::default() };
    assert_eq!(open(&chosen).expect("that of another rank").provider(), "opx");
}

/// Man fi_cxi, `FI_CXI_DEFAULT_CQ_SIZE`: messages that arrive before their receives reserve
/// entries.
/// Shows T3.
#[test]
fn the_completion_queue_of_cxi_has_room_for_early_messages() {
    let lengths = [CXI, Named("efa")].map(|named| {
        named.open(1);
        stand_in::queue_length()
    });
    assert_eq!(lengths, [32_768, 4096]);
}

/// The descriptor of `psm3` reports only what the process's own calls find, so that a sleep on it
/// would not end when a message arrives. Regression: a target that slept answered late.
/// Shows T3.
#[test]
fn only_descriptors_that_report_arrivals_are_slept_on() {
    let has = |name| stand_in::describe_queues(|| Named(name).open(1)).remove(0).endpoint().wait_fd().is_some();
    assert_eq!(["cxi", "verbs;ofi_rxm", "psm3", "efa", "shm"].map(has), [true, true, false, false, false]);
}

/// Regression: each wait returned at once, so that a waiting thread used a CPU.
#[test]
fn a_provider_without_an_answer_about_its_descriptor_is_waited_for_by_time() {
    let domain = stand_in::describe_queues(|| CXI.open(1)).remove(0);
    let has_news = stand_in::refuse_try_wait(|| {
        domain.port().wait_with_descriptor(Duration::from_millis(1), Awaited::Completions, None, || true)
    });
    assert!(!has_news, "nothing has arrived");
}

/// `efa` keeps registrations of origin buffers itself, unless the caller offers to register them.
/// Regression: each put registered its buffer.
/// Shows T3.
#[test]
fn origin_buffers_of_efa_are_registered_by_the_provider() {
    run(&Named("efa"), 2, |rank| {
        let long = 1 << 16;
        let window: Window<Named> = rank.window(long);
        if rank.me.0 == 1 {
            let (source, tally, before) = (Memory::private(long), Tally::new(), stand_in::registrations());
            for _ in 0..100 {
                rank.put(&window.remotes[0], 0, &source, &tally);
            }
            rank.flush(&tally);
            assert_eq!(stand_in::registrations(), before);
        }
        rank.barrier();
    });
}

/// A build for memory of devices requires `FI_MR_HMEM`, which changes nothing for memory of
/// the CPU.
/// Regression: the provider was refused.
/// Shows T3.
#[test]
fn builds_of_opx_for_device_memory_are_used() {
    let opened = stand_in::built_for_devices(|| Named("opx").open(1));
    assert_eq!(opened[0].provider(), "opx");
}

/// The source of a put may be read-only memory. Some providers register such memory if the right to
/// write is not requested, others do not register it. Regression: the put failed.
#[test]
fn the_source_of_a_put_may_be_read_only() {
    for named in ALL {
        run(&named, 2, |rank| {
            let long = 1 << 16;
            let window: Window<Named> = rank.window(long);
            if rank.me.0 == 1 {
                let source = stand_in::read_only(long, 7);
                let (tally, target) = (Tally::new(), &window.remotes[0]);
                rank.put(target, 0, &source, &tally);
                rank.flush(&tally);
            }
            rank.barrier();
            if rank.me.0 == 0 {
                let mut found = vec![0; long];
                window.memory.read(0, &mut found);
                assert!(found.iter().all(|&byte| byte == 7), "{}", rank.me);
            }
            rank.barrier();
        });
    }
}

/// A put of the caller's bytes takes two functions of the port before libfabric. Above the port it
/// takes six (tests/sim_frames.rs), so that the way from the public call to `fi_writemsg` has
/// eight functions.
#[test]
fn a_put_reaches_libfabric_by_two_functions_of_the_port() {
    run(&CXI, 2, |rank| {
        let long = rank.domain().port().limits().copied_max + 1;
        let window: Window<Named> = rank.window(long);
        rank.barrier();
        if rank.me.0 == 0 {
            let (source, tally) = (Memory::private(long), Tally::new());
            let called = stand_in::backtrace_of_write(|| rank.put(&window.remotes[1], 0, &source, &tally));
            let text = called.expect("one write").to_string();
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("at "));
            let names: Vec<&str> = lines.map(|line| line.split_once(": ").map_or(line, |(_, name)| name)).collect();
            let place = |of: &str| names.iter().position(|name| name.ends_with(of)).expect(of);
            let (library, port) = (place("operations::write"), place("Port>::put"));
            assert_eq!(port - library, 2, "{text}");
            assert!(names[library + 1].ends_with("Open>::write"), "{text}");
            rank.flush(&tally);
        }
        rank.barrier();
    });
}

/// Regression: a put was refused for ever where its buffer could not be registered, although the
/// end of another put would free locked memory.
#[test]
fn a_put_waits_for_the_locked_memory_of_others() {
    run(&Locked, 2, |rank| {
        // More than rank 1 copies.
        let long = 1 << 16;
        let window: Window<Locked> = rank.window(long);
        if rank.me.0 == 1 {
            let (source, tally, target) = (Memory::private(long), Tally::new(), &window.remotes[0]);
            let first = rank.try_put(target, 0, &source, &tally);
            assert!(matches!(first, Post::Pending), "{first:?}");
            let second = rank.try_put(target, 0, &source, &tally);
            assert!(matches!(second, Post::Again), "{second:?}");
            rank.put(target, 0, &source, &tally);
            rank.flush(&tally);
            // No put is in flight, so no locked memory becomes free.
            let other = rank.domain().register(&Memory::private(long)).expect("room for one");
            let third = rank.try_put(target, 0, &source, &tally);
            let Post::Broken(fault) = third else { panic!("{third:?}") };
            assert!(format!("{fault:?}").contains("RLIMIT_MEMLOCK"), "{fault:?}");
            drop(other);
        }
        rank.barrier();
    });
}

/// A receive that the provider refuses, for a reason that may pass or until its queue is read, is
/// posted later. Messages arrive meanwhile and afterwards.
#[test]
fn a_refused_receive_is_posted_again() {
    let domains = CXI.open(2);
    let (origin, target) = (domains[0].port(), domains[1].port());
    let count = Count::default();
    let arrive = |messages: usize| {
        let before = count.0.get();
        for sent in 0..messages {
            while matches!(origin.send(Peer(1), &[1]), Post::Again) {}
            for _ in 0..10_000 {
                origin.progress(&NoMessages).expect("the queue works");
                target.progress(&count).expect("the queue works");
                if count.0.get() > before + sent {
                    break;
                }
            }
        }
        count.0.get() - before
    };
    for error in [stand_in::ENOMEM as isize, stand_in::EAGAIN] {
        stand_in::refuse_receives(error, 100_000);
        assert_eq!(arrive(50), 50, "while receives are refused");
        assert!(stand_in::refused_receives() > 0, "a post was repeated although the queue was not read");
        stand_in::refuse_receives(0, 0);
        assert_eq!(arrive(1000), 1000, "later");
    }
}

/// A thread sleeps while another one takes messages and can't post their receives again. The
/// refusal of the last posted receive ends the sleep, because no message could end it. Regression:
/// the thread slept to its limit.
#[test]
fn the_refusal_of_the_last_receive_ends_sleeps() {
    const LONG: Duration = Duration::from_secs(20);
    let domains = stand_in::describe_queues(|| CXI.open(2));
    let (origin, target) = (domains[0].port(), domains[1].port());
    let (begun, is_over) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            target.wait(LONG);
            is_over.store(true, Ordering::Relaxed);
            begun.elapsed()
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!is_over.load(Ordering::Relaxed), "the thread sleeps");
        // Those of this thread only.
        stand_in::refuse_receives(stand_in::ENOMEM as isize, usize::MAX);
        let count = Count::default();
        while !is_over.load(Ordering::Relaxed) {
            // Until no receive is left, and then in vain.
            let _ = origin.send(Peer(1), &[1]);
            origin.progress(&NoMessages).expect("the queue works");
            target.progress(&count).expect("the queue works");
        }
        stand_in::refuse_receives(0, 0);
        let slept = sleeper.join().expect("no panic");
        assert!(slept < LONG / 2 && count.0.get() > 0, "{} messages, a sleep of {slept:?}", count.0.get());
    });
}

/// Errors of operations that nobody posted are dropped, and messages arrive afterwards. Regression:
/// the first such error ended the progress of the process.
#[test]
fn errors_of_unknown_operations_end_nothing() {
    let domains = CXI.open(2);
    let (origin, target) = (domains[0].port(), domains[1].port());
    stand_in::stray_errors(5);
    while stand_in::unread_errors() > 0 {
        target.progress(&NoMessages).expect("the error concerns no operation of this process");
    }
    let count = Count::default();
    assert!(matches!(origin.send(Peer(1), &[1]), Post::Done));
    for _ in 0..10_000 {
        origin.progress(&NoMessages).expect("the queue works");
        target.progress(&count).expect("the queue works");
    }
    assert_eq!(count.0.get(), 1);
}

/// Counts messages.
#[derive(Default)]
struct Count(Cell<usize>);

impl transom_fabric::Handler for Count {
    fn message(&self, _from: Peer, _bytes: &[u8]) {
        self.0.set(self.0.get() + 1);
    }
}

struct NoMessages;

impl transom_fabric::Handler for NoMessages {
    fn message(&self, from: Peer, bytes: &[u8]) {
        panic!("{} bytes from {from}, which no rank sent", bytes.len());
    }
}
