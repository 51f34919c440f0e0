//! `transom-run --host`: an agent starts ranks on several machines; here the agent enters a
//! namespace. Output, status and cleanup equal those of ranks on the launcher's machine.

use std::process::{Command, Output, Stdio};

use transom_harness::printed;

use super::{WATCHDOG, hosts};

/// Runs a script with two machines. In the script `run N` launches a job of N ranks, two on each
/// machine. `left` waits until no rank's `sleep 1000` is left, and fails if that takes long.
fn on_two_hosts(script: &str) -> Output {
    let script = format!(
        r#"run() {{ "$LAUNCHER" -n "$1" --tag-output --host hosta:2,hostb:2 --launch-agent "$TRANSOM_TEST_ENTER --enter {{host}}" \
                        --bind none --timeout {WATCHDOG} "${{@:2}}"; }}
           left() {{ for try in {{1..1000}}; do ps -eo args | grep -q '^[s]leep 1000' || return 0; sleep 0.02; done; return 1; }}
           {script}"#
    );
    let mut command = Command::new(hosts());
    command
        .args(["-n", "2", "--", "timeout", WATCHDOG, "bash", "-c", &script])
        .env("LAUNCHER", env!("CARGO_BIN_EXE_transom-test-run"));
    for variable in transom::info::VARIABLES {
        command.env_remove(variable.name);
    }
    command.env("OWN", std::env::current_exe().expect("a path")).stdin(Stdio::null()).output().expect("it starts")
}

/// Shows B1, B3.
pub(super) fn several_machines() {
    let output = on_two_hosts("export TRANSOM_INFO=1; run 4 --env A='b  c' \"$OWN\" --rank exchange_of_blocks");
    let text = printed(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 ranks of its node: shared memory") && text.contains("2 other ranks: libfabric"), "{text}");
    let output =
        on_two_hosts(r#"cd /usr/bin; run 3 --env A='b  c' sh -c 'echo "$(hostname) $PWD $A $1"' sh "two  words""#);
    let text = printed(&output);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let expected = [(0, "hosta"), (1, "hosta"), (2, "hostb")];
    assert_eq!(lines, expected.map(|(rank, host)| format!("[{rank}] {host} /usr/bin b  c two  words")));
}

/// Shows E4, B1.
pub(super) fn dying_elsewhere() {
    let output =
        on_two_hosts("run 4 sh -c '[ $PMI_RANK = 3 ] && kill -9 $$; sleep 1000'; status=$?; left && exit $status");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(128 + 9), "{text}");
    assert!(
        text.contains("transom-run: rank 3 (pid ") && text.contains(" on hostb) was killed by signal 9 (SIGKILL)"),
        "{text}"
    );
    assert!(text.contains("ending ranks 0-2, which still run"), "{text}");
    let output = on_two_hosts("run 4 sh -c '[ $PMI_RANK = 2 ] && exit 7; sleep 1000'; status=$?; left && exit $status");
    assert_eq!(output.status.code(), Some(7), "{}", printed(&output));
    let output = on_two_hosts("run 4 no-such-program");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(127), "{text}");
    assert!(text.contains("host") && text.contains("cannot start no-such-program"), "{text}");
    // An agent that exits with an error, as on a machine that refuses the login.
    let output = on_two_hosts("\"$LAUNCHER\" -n 2 --host hosta,hostb --launch-agent false true");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(": the agent ended with status 1 before rank "), "{text}");
}

/// Shows E4.
pub(super) fn killed() {
    let output = on_two_hosts(
        r#"mkfifo /dev/shm/started; "$LAUNCHER" -n 4 --host hosta:2,hostb:2 --launch-agent "$TRANSOM_TEST_ENTER --enter {host}" \
               sh -c 'sleep 1000 & echo started; sleep 1000' >/dev/shm/started & launcher=$!
           for rank in 1 2 3 4; do read -r line; done </dev/shm/started; rm /dev/shm/started
           [ "$(ps -eo args | grep -c '^[s]leep 1000')" = 8 ] || exit 5
           kill -9 $launcher; left || exit 6"#,
    );
    assert!(output.status.success(), "{}: {}", output.status, printed(&output));
}

/// Shows E4.
pub(super) fn signalled() {
    let output = on_two_hosts(
        r#""$LAUNCHER" -n 4 --tag-output --host hosta:2,hostb:2 --launch-agent "$TRANSOM_TEST_ENTER --enter {host}" \
               sh -c 'trap "echo asked; exit 3" TERM; echo started; sleep 1000 & wait' >/dev/shm/printed & launcher=$!
           until [ "$(grep -c started /dev/shm/printed)" = 4 ]; do sleep 0.02; done
           kill -TERM $launcher; wait $launcher; status=$?; cat /dev/shm/printed; rm /dev/shm/printed; left && exit $status"#,
    );
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(128 + 15), "{text}");
    assert!(text.contains("transom-run: SIGTERM: ending ranks 0-3, which still run"), "{text}");
    for rank in 0..4 {
        assert!(text.contains(&format!("[{rank}] asked")), "rank {rank} was not asked to end, or not heard: {text}");
    }
}

/// Shows B3.
pub(super) fn strangers() {
    let rank = r#"try() { exec 3<>"/dev/tcp/${PMI_PORT%:*}/${PMI_PORT##*:}"; echo "$1" >&3; timeout 20 cat <&3; exec 3>&-; }
                  try "cmd=initack pmiid=$PMI_ID"
                  try "cmd=initack pmiid=$PMI_ID secret=00112233445566778899aabbccddeeff"
                  try "cmd=join host=0 secret="
                  try "cmd=init pmi_version=1 pmi_subversion=1"
                  echo no answer
                  exec 3<>"/dev/tcp/${PMI_PORT%:*}/${PMI_PORT##*:}"
                  echo "cmd=initack pmiid=$PMI_ID secret=$TRANSOM_PMI_SECRET" >&3; head -n 3 <&3"#;
    let output = on_two_hosts(&format!("run 1 bash -c '{rank}'"));
    let text = printed(&output);
    let (before, after) = text.split_once("[0] no answer\n").unwrap_or_else(|| panic!("{text}"));
    assert_eq!(before, "");
    assert!(after.starts_with("[0] cmd=initack rc=0\n[0] cmd=set size=1\n[0] cmd=set rank=0\n"), "{text}");
    let output = on_two_hosts("unset TRANSOM_PMI_SECRET; run 2 env -u TRANSOM_PMI_SECRET \"$OWN\" --rank exchange");
    let text = printed(&output);
    assert!(!output.status.success() && text.contains("the launcher closed the connection during initack"), "{text}");
}

/// The report that a rank was killed may arrive after the report of a rank that ended because of
/// it. The job's status is that of the killed rank.
/// Shows E4.
pub(super) fn late_report() {
    let output = on_two_hosts(
        // Rank 0 ends when the others are ready for SIGTERM.
        r#"ready=$(mktemp -d)
           run 4 sh -c "[ \$PMI_RANK = 0 ] && { while [ \$(ls $ready | wc -l) -lt 3 ]; do sleep 0.1; done; exit 3; }
                        trap 'kill -9 \$\$' TERM; touch $ready/\$PMI_RANK; sleep 1000 & wait"
           status=$?; rm -r $ready; left && exit $status"#,
    );
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(128 + 9), "{text}");
    assert!(text.contains("rank 0 (pid ") && text.contains("exited with status 3"), "{text}");
    assert!(text.contains("SIGKILL"), "{text}");
}

/// Shows E4.
pub(super) fn vanishing() {
    let output = on_two_hosts(
        "run 4 sh -c '[ $PMI_RANK = 3 ] && ip link set eth0 down; sleep 1000'; status=$?; left && exit $status",
    );
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("hostb: the agent ended") && text.contains("before ranks 2-3 ended"), "{text}");
}
