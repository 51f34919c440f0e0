//! The kernel's pacing of TCP. With the congestion control `bbr` the kernel spaces the packets of a
//! connection in time, within one machine too. If a write takes two packets, the second one waits
//! for a timer of the kernel, and so do the writes behind it.

use std::path::Path;

/// The congestion control of new connections.
const CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The most bytes that fit one packet to the kernel's own devices, together with the headers of the
/// provider and of TCP: a packet has at most 64 KiB.
const ONE_PACKET: usize = 60 << 10;

/// The longest operation over sockets that no timer of the kernel delays.
pub(crate) fn longest() -> usize {
    if paces(Path::new(CONTROL)) { ONE_PACKET } else { usize::MAX }
}

fn paces(control: &Path) -> bool {
    std::fs::read_to_string(control).is_ok_and(|name| name.trim() == "bbr")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bbr_paces() {
        let file = std::env::temp_dir().join(format!("transom-control-{}", std::process::id()));
        assert!(!paces(&file), "no such file");
        for (name, expected) in [("bbr\n", true), ("cubic\n", false), ("reno\n", false)] {
            std::fs::write(&file, name).expect("a file");
            assert_eq!(paces(&file), expected, "{name}");
        }
        std::fs::remove_file(&file).expect("it is there");
    }
}
