//! The shared object with this library's code: `libtransom.so`, or `libtransom_mpi.so`. Its
//! functions need not have names. In a program that is linked statically there is none.

use std::fs;
use std::ops::Range;
use std::sync::OnceLock;

/// Whether an address belongs to the code of this library's shared object.
pub(super) fn has(address: usize) -> bool {
    static OWN: OnceLock<Option<Range<usize>>> = OnceLock::new();
    let find = || {
        let (maps, program) = (fs::read_to_string("/proc/self/maps").ok()?, fs::read_link("/proc/self/exe").ok()?);
        range_of(&maps, (has as *const ()).addr(), program.to_str()?)
    };
    OWN.get_or_init(find).as_ref().is_some_and(|range| range.contains(&address))
}

/// The file that has the code at an address, without its folders, and the distance of the address
/// from the file's first mapping.
pub(super) fn distance(address: usize) -> Option<String> {
    distance_in(&fs::read_to_string("/proc/self/maps").ok()?, address)
}

fn distance_in(maps: &str, address: usize) -> Option<String> {
    let code = maps.lines().filter_map(mapping).find(|it| it.range.contains(&address))?;
    // The file may be mapped a second time, as data, by a reader of its debug information.
    let begins = |it: &Mapping<'_>| it.path == code.path && it.offset == 0 && it.range.start <= address;
    let first = maps.lines().rev().filter_map(mapping).find(begins)?;
    let file = code.path.rsplit('/').next()?;
    Some(format!("{file}+{:#x}", address - first.range.start))
}

/// The mapping with an address, which has all code of its file. `maps`: the mappings of a process.
/// `None` if the file is that of the program itself.
fn range_of(maps: &str, address: usize, program: &str) -> Option<Range<usize>> {
    let it = maps.lines().filter_map(mapping).find(|it| it.range.contains(&address))?;
    (it.path != program).then_some(it.range)
}

/// A mapping of a file: its addresses, and the offset of its first byte in the file.
struct Mapping<'m> {
    range: Range<usize>,
    offset: usize,
    path: &'m str,
}

/// The mapping of a line of `/proc/self/maps`.
fn mapping(line: &str) -> Option<Mapping<'_>> {
    let number = |text| usize::from_str_radix(text, 16).ok();
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let offset = number(words.nth(1)?)?;
    let path = &line[line.find('/')?..];
    Some(Mapping { range: number(start)?..number(end)?, offset, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
        1000-2000 r-xp 00000000 fd:00 11                         /opt/bin/solver\n\
        5000-6000 rw-p 00000000 00:00 0 \n\
        6000-6800 r--p 00000000 fd:00 12                         /opt/lib/lib one.so\n\
        7000-8000 r--p 00000000 fd:00 12                         /opt/lib/lib one.so\n\
        8000-9000 r-xp 00001000 fd:00 12                         /opt/lib/lib one.so\n\
        9000-a000 rw-p 00002000 fd:00 12                         /opt/lib/lib one.so\n\
        a000-b000 r-xp 00000000 fd:00 13                         /opt/lib/other.so\n\
        b000-c000 rw-p 00000000 00:00 0                          [stack]\n";

    #[test]
    fn the_code_of_a_shared_object_is_that_of_its_mapping() {
        assert_eq!(range_of(MAPS, 0x8800, "/opt/bin/solver"), Some(0x8000..0x9000));
        assert_eq!(range_of(MAPS, 0xa800, "/opt/bin/solver"), Some(0xa000..0xb000));
        for (address, what) in [(0x1800, "the program"), (0x5800, "no file"), (0xb800, "no file"), (0x3000, "nothing")]
        {
            assert_eq!(range_of(MAPS, address, "/opt/bin/solver"), None, "{what}");
        }
        assert!(!has((mapping as *const ()).addr()), "the tests are one program");
    }

    #[test]
    fn the_distance_of_code_is_from_the_first_mapping_of_its_file() {
        let distance = |address| distance_in(MAPS, address);
        assert_eq!(distance(0x1012).as_deref(), Some("solver+0x12"));
        assert_eq!(distance(0x8801).as_deref(), Some("lib one.so+0x1801"));
        assert_eq!(distance(0x5800), None, "no file");
    }
}
