//! Whether the kernel gives huge pages to memfds (`shmem_enabled`). Only reads the setting.

use std::fs::read_to_string;
use std::path::Path;

/// Settings under which a memfd's pages that are advised to be huge become huge (Linux,
/// Documentation/admin-guide/mm/transhuge.rst).
const ENABLED: [&str; 4] = ["always", "within_size", "advise", "force"];

/// Whether the kernel provides huge pages for memory to which [`advise_huge`](crate::advise_huge)
/// was applied.
///
/// # Errors
/// The setting that excludes them.
pub fn huge_pages() -> Result<(), String> {
    read_setting(Path::new("/sys/kernel/mm/transparent_hugepage/shmem_enabled"))
}

/// As [`huge_pages`], by the setting in a file, which lists all values with the chosen one in
/// brackets.
fn read_setting(setting: &Path) -> Result<(), String> {
    let values = read_to_string(setting).map_err(|error| format!("{}: {error}", setting.display()))?;
    let chosen = values.split_whitespace().find_map(|value| value.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        Some(chosen) if ENABLED.contains(&chosen) => Ok(()),
        other => Err(format!("{} is {}", setting.display(), other.unwrap_or("unknown"))),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_value_in_brackets_counts() {
        let file = std::env::temp_dir().join(format!("transom-huge-{}", std::process::id()));
        let outcome = |text: &str| {
            std::fs::write(&file, text).expect("a file");
            read_setting(&file)
        };
        assert_eq!(outcome("always within_size [advise] never deny force\n"), Ok(()));
        assert_eq!(outcome("[always] within_size advise never deny force\n"), Ok(()));
        let never = outcome("always within_size advise [never] deny force\n").expect_err("excluded");
        assert!(never.ends_with(" is never"), "{never}");
        assert!(outcome("").is_err());
        std::fs::remove_file(&file).expect("the file");
        assert!(read_setting(&file).is_err(), "a kernel without huge pages");
    }
}
