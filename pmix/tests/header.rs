//! The layouts and constants of `sys` against pmix.h, asked of a C compiler, where both are
//! installed; ignored elsewhere.

use std::mem::offset_of;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use transom_pmix::sys;

/// Where distributions put the header, beside the compiler's own folders.
const FOLDERS: [&str; 4] = [
    "-I/usr/lib/x86_64-linux-gnu/pmix2/include",
    "-I/usr/lib/aarch64-linux-gnu/pmix2/include",
    "-I/usr/local/include",
    "-I/opt/pmix/include",
];

const PROGRAM: &str = r#"
#include <pmix.h>
#include <stddef.h>
#include <stdio.h>
int main(void) {
    printf("%zu %zu %zu %zu %zu ", sizeof(pmix_proc_t), offsetof(pmix_proc_t, rank), sizeof(pmix_value_t),
           offsetof(pmix_value_t, data), sizeof(pmix_byte_object_t));
    printf("%zu %zu %zu ", sizeof(pmix_info_t), offsetof(pmix_info_t, flags), offsetof(pmix_info_t, value));
    printf("%d %d %d %d %d ", PMIX_BOOL, PMIX_STRING, PMIX_UINT32, PMIX_BYTE_OBJECT, PMIX_GLOBAL);
    printf("%d %u %d ", PMIX_ERR_NOT_FOUND, (unsigned)PMIX_RANK_WILDCARD, PMIX_MAX_KEYLEN);
    printf("%s %s %s %s", PMIX_COLLECT_DATA, PMIX_IMMEDIATE, PMIX_JOB_SIZE, PMIX_LOCAL_PEERS);
    return 0;
}
"#;

fn main() -> ExitCode {
    let trial = Trial::test("layouts_and_constants_are_those_of_the_installed_header", compare);
    libtest_mimic::run(&Arguments::from_args(), vec![trial.with_ignored_flag(!installed())]).exit_code()
}

fn cc() -> Command {
    let mut cc = Command::new("cc");
    cc.args(FOLDERS).args(["-x", "c"]);
    cc
}

fn installed() -> bool {
    let probe = std::env::temp_dir().join(format!("transom-pmix-probe-{}.c", std::process::id()));
    let there = std::fs::write(&probe, "#include <pmix.h>\n").is_ok()
        && cc().arg("-fsyntax-only").arg(&probe).output().is_ok_and(|output| output.status.success());
    drop(std::fs::remove_file(probe));
    there
}

fn compare() -> Result<(), Failed> {
    let program = std::env::temp_dir().join(format!("transom-pmix-header-{}", std::process::id()));
    let source = program.with_extension("c");
    std::fs::write(&source, PROGRAM)?;
    let built = cc().arg(&source).arg("-o").arg(&program).output();
    let printed = Command::new(&program).output();
    drop((std::fs::remove_file(source), std::fs::remove_file(&program)));
    let built = built?;
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    assert_eq!(String::from_utf8_lossy(&printed?.stdout), ours());
    Ok(())
}

fn ours() -> String {
    let sizes = [
        size_of::<sys::pmix_proc>(),
        offset_of!(sys::pmix_proc, rank),
        size_of::<sys::pmix_value>(),
        offset_of!(sys::pmix_value, data),
        size_of::<sys::pmix_byte_object>(),
        size_of::<sys::pmix_info>(),
        offset_of!(sys::pmix_info, flags),
        offset_of!(sys::pmix_info, value),
    ];
    let types = [sys::PMIX_BOOL, sys::PMIX_STRING, sys::PMIX_UINT32, sys::PMIX_BYTE_OBJECT, sys::PMIX_GLOBAL.into()];
    let words = sizes.iter().map(ToString::to_string).chain(types.iter().map(ToString::to_string));
    let words = words.chain([sys::PMIX_ERR_NOT_FOUND.to_string(), sys::PMIX_RANK_WILDCARD.to_string()]);
    let words = words.chain([sys::PMIX_MAX_KEYLEN.to_string()]);
    let keys = ["pmix.collect", "pmix.immediate", "pmix.job.size", "pmix.lpeers"].map(str::to_owned);
    words.chain(keys).collect::<Vec<_>>().join(" ")
}
