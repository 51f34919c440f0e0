//! Plain connections that do not speak the listener's protocol.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Connects to a port of this machine in several hostile ways: random data of several lengths, a
/// request of another protocol, half a word, no data. Returns the connections that remain open.
pub(crate) fn open_hostile(port: u16) -> Vec<TcpStream> {
    let long = vec![0xA5; 70_000];
    let zeros = [0; 512];
    let texts: [&[u8]; 5] = [b"GET / HTTP/1.1\r\n\r\n", b"\x01", &zeros, &long, b""];
    let mut open = Vec::new();
    for (at, text) in texts.into_iter().enumerate() {
        let Some(mut stream) = connect(port) else { continue };
        let _ = stream.set_write_timeout(Some(Duration::from_millis(50)));
        let _ = stream.write_all(text);
        // Every other connection closes at once.
        if at % 2 == 0 {
            open.push(stream);
        }
    }
    open
}

/// Up to about 500 silent connections, as many as the listener accepts.
pub(crate) fn many(port: u16) -> Vec<TcpStream> {
    let until = Instant::now() + Duration::from_secs(10);
    (0..500).take_while(|_| Instant::now() < until).filter_map(|_| connect(port)).collect()
}

/// A connection, if a listener accepts it.
fn connect(port: u16) -> Option<TcpStream> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&at, Duration::from_millis(100)).ok()
}
