//! Tests of the variables' values and of their errors.

use super::*;

fn with(name: &'static str, value: &'static str) -> Result<Settings> {
    Settings::read(|variable| (variable == name).then(|| value.to_owned()))
}

#[test]
fn transports_are_listed_or_excluded() {
    let chosen = |value| with(TRANSPORTS, value).map(|s| (s.shm, s.verbs, s.ofi)).map_err(|e| e.to_string());
    assert_eq!(chosen("^shm"), Ok((false, true, true)));
    assert_eq!(chosen("shm"), Ok((true, false, false)));
    assert_eq!(chosen("shm, ofi"), Ok((true, false, true)));
    assert_eq!(chosen("verbs"), Ok((false, true, false)));
    let unknown = "TRANSOM_TRANSPORTS=ib: the value must be a list of the transports shm, verbs and ofi";
    assert_eq!(chosen("ib"), Err(unknown.into()));
    assert!(chosen("^shm,verbs,ofi").is_err() && chosen(",").is_err());
}

#[test]
fn an_empty_value_counts_as_unset() {
    for variable in VARIABLES {
        let found = with(variable.name, "").map(|settings| format!("{settings:?}"));
        assert_eq!(found.ok(), Some(format!("{:?}", Settings::default())), "{}", variable.name);
    }
}

#[test]
fn sizes_may_have_suffixes_and_other_text_is_refused() {
    let populate = |value| with(POPULATE, value).map(|s| s.populate).ok();
    assert_eq!(populate("4k"), Some(4096));
    assert_eq!(populate("1G"), Some(1 << 30));
    assert_eq!(populate("0"), Some(0));
    assert_eq!(populate("-1"), None);
    assert_eq!(populate("99999999999999999g"), None);
    assert!(with(CMA, "maybe").is_err() && with(ATOMICS, "gpu").is_err());
    let silence = |value| with(SILENCE, value).map(|s| s.silence).ok();
    assert_eq!(silence("30"), Some(Some(Duration::from_secs(30))));
    assert!(silence("1").is_none() && silence("601").is_none() && silence("soon").is_none());
}

#[test]
fn settings_of_rdma_are_read_within_their_bounds() {
    let rdma = |name, value| with(name, value).map(|settings| settings.rdma).map_err(|error| error.to_string());
    let none = Rdma::default();
    assert_eq!(rdma(GID_INDEX, "3"), Ok(Rdma { gid_index: Some(3), ..none }));
    assert_eq!(rdma(SERVICE_LEVEL, "15"), Ok(Rdma { service_level: 15, ..none }));
    assert_eq!(rdma(REGISTERED, "64m"), Ok(Rdma { registered: Some(64 << 20), ..none }));
    assert_eq!(rdma(PAGE_FAULTS, "y"), Ok(Rdma { page_faults: true, ..none }));
    assert_eq!(rdma(TRAFFIC_CLASS, "104"), Ok(Rdma { traffic_class: 104, ..none }));
    assert_eq!(rdma(PARTITION, "0x8007"), Ok(Rdma { partition: Some(0x8007), ..none }));
    assert_eq!(rdma(MTU, "1024"), Ok(Rdma { mtu: Some(1024), ..none }));
    assert_eq!(rdma(MTU, ""), Ok(none));
    let refused = [(GID_INDEX, "256"), (SERVICE_LEVEL, "16"), (PARTITION, "0"), (PARTITION, "0x10000"), (MTU, "8192")];
    assert!(refused.iter().all(|(name, value)| rdma(name, value).is_err()));
    let words = rdma(MTU, "1500").expect_err("no power of two");
    assert!(words.ends_with("the value must be 256, 512, 1024, 2048 or 4096"), "{words}");
    let words = rdma(SERVICE_LEVEL, "high").expect_err("no number");
    assert!(words.ends_with("the value must be a number, 0 to 15"), "{words}");
}

#[test]
fn the_error_of_the_checker_lists_all_its_values() {
    let check = |value| with(CHECK, value).map(|s| (s.check.on, s.check.fails)).map_err(|error| error.to_string());
    assert_eq!(check("fail"), Ok((true, true)));
    assert_eq!(check("on"), Ok((true, false)));
    assert_eq!(check("0"), Ok((false, false)));
    assert_eq!(check("abort"), Err("TRANSOM_CHECK=abort: the value must be y, n or fail".into()));
}

#[test]
fn a_rank_without_xpmem_must_be_a_number() {
    assert_eq!(with(TEST_WITHOUT_XPMEM, "1").ok().and_then(|s| s.pretended.without_xpmem), Some(1));
    assert!(with(TEST_WITHOUT_XPMEM, "one").is_err());
}

#[test]
fn unknown_variables_are_named() {
    let names = ["TRANSOM_INFO", "TRANSOM_TRANSPORT", "PATH", "TRANSOM_LAUNCHER"].map(OsString::from);
    assert_eq!(unknown(names.into_iter()), ["TRANSOM_TRANSPORT"]);
    assert!(warning("TRANSOM_TRANSPORT").contains("is not a variable of this version"));
}

#[test]
fn a_removed_variable_is_reported_with_its_replacement() {
    assert_eq!(unknown(["TRANSOM_ADOPT".into()].into_iter()), ["TRANSOM_ADOPT"]);
    let warning = warning("TRANSOM_ADOPT");
    assert!(["was removed", "MPI_Alloc_mem", "XPMEM"].iter().all(|part| warning.contains(part)), "{warning}");
    assert!(!warning.contains("no variable") && !warning.contains('\n'), "{warning}");
}
