//! What the kernel reports of this process in procfs (proc(5)).

use std::io::{Error, Result};
use std::ops::Range;

/// The bytes that a line in kB of a file of procfs states, such as `VmRSS:` of `/proc/self/status`.
///
/// # Errors
/// The file can't be read, or has no such line.
pub fn bytes_of_proc(file: &str, line: &str) -> Result<u64> {
    let text = std::fs::read_to_string(file)?;
    let value = text.lines().find_map(|found| found.strip_prefix(line));
    bytes(value.ok_or_else(|| Error::other(format!("{file} has no line {line}")))?)
}

/// The bytes of a value in kB.
fn bytes(value: &str) -> Result<u64> {
    let number = value.trim().strip_suffix("kB").ok_or_else(|| Error::other(format!("{value:?} is not in kB")))?;
    Ok(number.trim().parse::<u64>().map_err(Error::other)? << 10)
}

/// A mapping of this process, as in `/proc/self/smaps` (proc_pid_smaps(5)).
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The mapped addresses.
    pub addresses: Range<usize>,
    /// The inode of the mapped file; 0 if there is none.
    pub inode: u64,
    /// The path of the mapped file, or the kernel's name of the mapping; may be empty.
    pub path: String,
    attributes: Vec<String>,
}

impl Mapping {
    /// All mappings of this process, by their addresses.
    ///
    /// # Errors
    /// The file can't be read, or has another form.
    pub fn all() -> Result<Vec<Mapping>> {
        let mut all: Vec<Mapping> = Vec::new();
        for line in std::fs::read_to_string("/proc/self/smaps")?.lines() {
            if let Some(mapping) = Mapping::of_first_line(line) {
                all.push(mapping);
            } else if let Some(last) = all.last_mut() {
                last.attributes.push(line.to_owned());
            }
        }
        Ok(all)
    }

    /// The mapping that contains an address.
    ///
    /// # Errors
    /// Those of [`Mapping::all`], or there is no such mapping.
    pub fn at(address: usize) -> Result<Mapping> {
        let found = Mapping::all()?.into_iter().find(|mapping| mapping.addresses.contains(&address));
        found.ok_or_else(|| Error::other(format!("no mapping contains {address:#x}")))
    }

    /// The first line of a mapping: addresses, permissions, offset, device, inode and path.
    fn of_first_line(line: &str) -> Option<Mapping> {
        let mut fields = line.split_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let [begin, end] = [begin, end].map(|bound| usize::from_str_radix(bound, 16).ok());
        let inode = fields.nth(3)?.parse().ok()?;
        let path = fields.collect::<Vec<_>>().join(" ");
        Some(Mapping { addresses: begin?..end?, inode, path, attributes: Vec::new() })
    }

    /// The value of an attribute, without blanks around it.
    fn attribute(&self, name: &str) -> Result<&str> {
        let value = self.attributes.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim).ok_or_else(|| Error::other(format!("a mapping has no attribute {name}")))
    }

    /// The flags, each by its abbreviation.
    ///
    /// # Errors
    /// The kernel does not report flags.
    pub fn flags(&self) -> Result<Vec<String>> {
        Ok(self.attribute("VmFlags")?.split_whitespace().map(str::to_owned).collect())
    }

    /// The bytes that this process's page table has.
    ///
    /// # Errors
    /// The kernel does not report this number.
    pub fn resident(&self) -> Result<u64> {
        bytes(self.attribute("Rss")?)
    }
}
