//! The launcher's side of PMI-1 as a state machine: lines in, lines out, no I/O. It owns the
//! key-value store, the barrier and each rank's state in the job. Independent of processes and
//! sockets.

use std::collections::HashMap;

use transom::launching::{MAX_ACCEPTED, Words, from_hex};

/// Limits that are announced to the ranks, in bytes with a terminating zero: Hydra's values,
/// because other PMI clients have buffers of these sizes. `line_max` allows ranks of this library
/// longer lines, and so longer values.
const KVSNAME_MAX: usize = 256;
const KEYLEN_MAX: usize = 64;
const VALLEN_MAX: usize = 1024;

/// The key-value store, the barrier, and the members.
#[derive(Debug)]
pub(super) struct Server {
    kvsname: String,
    store: HashMap<String, String>,
    members: Vec<Member>,
    /// Number of `waiting` members.
    waiting: usize,
    /// The first rank that has ended: it may be the cause of later ends.
    first_gone: Option<usize>,
}

/// One rank's state.
#[derive(Debug, Clone, Copy, Default)]
struct Member {
    joined: bool,
    finalized: bool,
    waiting: bool,
}

/// An action that a rank requests of the launcher in addition to an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Nothing.
    Nothing,
    /// End the job with this status, for this reason.
    Abort { code: i32, why: String },
}

/// Lines to send: the rank, and the line with its newline.
pub(super) type Replies = Vec<(usize, String)>;

impl Server {
    /// The server of a job; `machines` has the number of ranks of each machine. `id` distinguishes
    /// the job's key space from those of other jobs.
    pub(super) fn new(machines: &[usize], id: u32) -> Self {
        let size = machines.iter().sum();
        let mut store = HashMap::new();
        // By the MPICH convention: a vector of (first node, nodes, ranks per node).
        let blocks: Vec<_> = machines.iter().enumerate().map(|(node, ranks)| format!("({node},1,{ranks})")).collect();
        store.insert("PMI_process_mapping".to_owned(), format!("(vector,{})", blocks.join(",")));
        Self {
            kvsname: format!("kvs_{id}_0"),
            store,
            members: vec![Member::default(); size],
            waiting: 0,
            first_gone: None,
        }
    }

    /// Handles one line of `rank`, without its newline; appends the replies.
    pub(super) fn line(&mut self, rank: usize, line: &str, replies: &mut Replies) -> Request {
        let words = Words::new(line);
        let size = self.members.len();
        let answer = match words.get("cmd").unwrap_or("") {
            "init" => self.init(rank, words),
            "get_maxes" => {
                format!(
                    "cmd=maxes rc=0 kvsname_max={KVSNAME_MAX} keylen_max={KEYLEN_MAX} vallen_max={VALLEN_MAX} \
                     line_max={MAX_ACCEPTED}"
                )
            }
            "get_appnum" => "cmd=appnum rc=0 appnum=0".to_owned(),
            "get_universe_size" => format!("cmd=universe_size rc=0 size={size}"),
            "get_my_kvsname" => format!("cmd=my_kvsname rc=0 kvsname={}", self.kvsname),
            "put" => self.put(words),
            "get" => self.get(words),
            "barrier_in" => {
                self.enter_barrier(rank, replies);
                return Request::Nothing;
            }
            "finalize" => {
                self.members[rank].finalized = true;
                "cmd=finalize_ack rc=0".to_owned()
            }
            "abort" => return abort(words),
            other => format!("cmd={other}_result rc=1 msg=unknown_command"),
        };
        replies.push((rank, answer + "\n"));
        Request::Nothing
    }

    /// Records that the process of `rank` has ended.
    pub(super) fn gone(&mut self, rank: usize) {
        self.first_gone.get_or_insert(rank);
    }

    /// Whether `rank` has joined the job and not left.
    pub(super) fn is_member(&self, rank: usize) -> bool {
        self.members[rank].joined && !self.members[rank].finalized
    }

    /// A rank that has ended or left, and a rank that waits for it in a barrier that can't
    /// complete; `None` if there are none.
    pub(super) fn stuck(&self) -> Option<(usize, usize)> {
        if self.waiting == 0 {
            return None;
        }
        let waiting = self.members.iter().position(|member| member.waiting)?;
        let missing = self.first_gone.or_else(|| self.members.iter().position(|member| member.finalized))?;
        Some((missing, waiting))
    }

    /// Tells the ranks in the barrier that it can never complete, because rank `missing` is gone.
    pub(super) fn break_barrier(&mut self, missing: usize) -> Replies {
        self.waiting = 0;
        let members = self.members.iter_mut().enumerate();
        let waiting = members.filter_map(|(rank, member)| std::mem::take(&mut member.waiting).then_some(rank));
        waiting.map(|rank| (rank, format!("cmd=barrier_out rc=-1 ended={missing}\n"))).collect()
    }

    fn init(&mut self, rank: usize, words: Words<'_>) -> String {
        if words.get("pmi_version").is_some_and(|version| version != "1") {
            return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1".to_owned();
        }
        self.members[rank].joined = true;
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned()
    }

    fn put(&mut self, words: Words<'_>) -> String {
        let refuse = |why: &str| format!("cmd=put_result rc=-1 msg={why}");
        let (Some(key), Some(value)) = (words.get("key"), words.get("value")) else {
            return refuse("key_or_value_missing");
        };
        if words.get("kvsname").is_some_and(|name| name != self.kvsname) {
            return refuse("unknown_kvsname");
        }
        if key.is_empty() || key.len() >= KEYLEN_MAX {
            return refuse("key_too_long");
        }
        if self.store.contains_key(key) {
            return refuse("duplicate_key");
        }
        self.store.insert(key.to_owned(), value.to_owned());
        "cmd=put_result rc=0 msg=success".to_owned()
    }

    fn get(&self, words: Words<'_>) -> String {
        match words.get("key").and_then(|key| self.store.get(key)) {
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
            None => "cmd=get_result rc=1 msg=key_not_found value=unknown".to_owned(),
        }
    }

    fn enter_barrier(&mut self, rank: usize, replies: &mut Replies) {
        if !std::mem::replace(&mut self.members[rank].waiting, true) {
            self.waiting += 1;
        }
        if self.waiting < self.members.len() {
            return;
        }
        self.waiting = 0;
        for (rank, member) in self.members.iter_mut().enumerate() {
            member.waiting = false;
            replies.push((rank, "cmd=barrier_out rc=0\n".to_owned()));
        }
    }
}

fn abort(words: Words<'_>) -> Request {
    let code = words.get("exitcode").and_then(|text| text.parse().ok()).unwrap_or(1);
    // This library sends `why`, in hexadecimal. Versions of MPICH send one of the other two.
    let own = words.get("why").and_then(from_hex).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let why = own.or_else(|| words.get("error_msg").or(words.get("message")).map(str::to_owned)).unwrap_or_default();
    Request::Abort { code, why }
}

#[cfg(test)]
mod tests {
    use super::{Replies, Request, Server};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;
    use transom::bootstrap::counted::noise;
    use transom::bootstrap::pmi1::Pmi1;
    use transom::bootstrap::{Bootstrap, BootstrapError, MAX_GATHERED};

    /// Serves `size` ranks over socket pairs, with a thread for each, in which `rank` runs. Returns
    /// the number of lines from each rank.
    fn serve(size: usize, rank: impl Fn(Pmi1) + Sync) -> Vec<usize> {
        let (theirs, ours): (Vec<_>, Vec<_>) = (0..size).map(|_| UnixStream::pair().unwrap()).unzip();
        let server = Mutex::new(Server::new(&[size], 7));
        std::thread::scope(|scope| {
            let (server, ours, rank) = (&server, &ours, &rank);
            let serves = |number: usize| {
                let mut count = 0;
                for line in BufReader::new(&ours[number]).lines() {
                    count += 1;
                    // The lock is held during the send, so that the answers to one rank keep their
                    // order.
                    let mut server = server.lock().unwrap();
                    let mut replies = Replies::new();
                    server.line(number, &line.unwrap(), &mut replies);
                    for (to, text) in replies {
                        (&ours[to]).write_all(text.as_bytes()).unwrap();
                    }
                }
                count
            };
            let serving: Vec<_> = theirs
                .into_iter()
                .enumerate()
                .map(|(number, socket)| {
                    scope.spawn(move || rank(Pmi1::join(socket.into(), number, size).unwrap()));
                    scope.spawn(move || serves(number))
                })
                .collect();
            serving.into_iter().map(|served| served.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_gather_values_of_every_length_through_lines_of_text() {
        serve(3, |mut pmi| {
            let (me, limit) = (pmi.rank(), pmi.value_limit());
            for (round, length) in [0, 1, limit / 2, limit, MAX_GATHERED - 2].into_iter().enumerate() {
                let value = |rank: usize| noise(rank, length + rank);
                let all = pmi.allgather(&format!("round{round}"), &value(me)).unwrap();
                assert_eq!(all, [value(0), value(1), value(2)], "length {length}");
            }
            assert_eq!(pmi.get_text("PMI_process_mapping").unwrap().as_deref(), Some("(vector,(0,1,3))"));
            let foreign = pmi.get(0, "PMI_process_mapping");
            assert!(matches!(foreign, Err(BootstrapError::Malformed { .. })), "{foreign:?}");
            pmi.finalize().unwrap();
        });
    }

    #[test]
    fn lines_of_a_rank_grow_with_the_logarithm_of_ranks() {
        for size in [2, 8, 64, 130] {
            let lines = serve(size, |mut pmi| {
                let value = |rank: usize| [&b"what all tell"[..], &noise(rank, 120)].concat();
                let all = pmi.allgather("cards", &value(pmi.rank())).unwrap();
                assert!(all.into_iter().eq((0..size).map(value)));
                pmi.finalize().unwrap();
            });
            let most = lines.into_iter().max().unwrap();
            // Joining takes 3 lines and leaving 1.
            assert!(most <= 4 + 3 * size.ilog2() as usize + 10, "{most} lines for {size} ranks");
        }
    }

    /// Shows B3.
    #[test]
    fn a_launcher_that_closes_or_violates_the_protocol_is_an_error() {
        let (theirs, ours) = UnixStream::pair().unwrap();
        drop(ours);
        let closed = Pmi1::join(theirs.into(), 0, 1);
        assert!(matches!(closed, Err(BootstrapError::Closed { during: "init" })), "{closed:?}");
        let (theirs, ours) = UnixStream::pair().unwrap();
        (&ours).write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
        let nonsense = Pmi1::join(theirs.into(), 0, 1);
        assert!(matches!(nonsense, Err(BootstrapError::Protocol { during: "init", .. })), "{nonsense:?}");
    }

    fn ask(server: &mut Server, rank: usize, line: &str) -> String {
        let mut replies = Replies::new();
        assert_eq!(server.line(rank, line, &mut replies), Request::Nothing);
        let (to, text) = replies.pop().unwrap();
        assert!(to == rank && replies.is_empty() && text.ends_with('\n'), "{replies:?}");
        text.trim_end().to_owned()
    }

    #[test]
    fn the_commands_of_pmi_1() {
        let mut server = Server::new(&[3], 7);
        let init = "cmd=init pmi_version=1 pmi_subversion=1";
        assert_eq!(ask(&mut server, 0, init), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
        assert!(ask(&mut server, 1, "cmd=init pmi_version=2 pmi_subversion=0").ends_with("rc=-1"));
        assert!(server.is_member(0) && !server.is_member(1));
        assert_eq!(
            ask(&mut server, 0, "cmd=get_maxes"),
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024 line_max=65536"
        );
        assert_eq!(ask(&mut server, 0, "cmd=get_universe_size"), "cmd=universe_size rc=0 size=3");
        assert_eq!(ask(&mut server, 0, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=0");
        assert_eq!(ask(&mut server, 0, "cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=kvs_7_0");
        let mapping = ask(&mut server, 2, "cmd=get kvsname=kvs_7_0 key=PMI_process_mapping");
        assert!(mapping.ends_with("value=(vector,(0,1,3))"), "{mapping}");
        assert_eq!(ask(&mut server, 0, "cmd=publish_name x=y"), "cmd=publish_name_result rc=1 msg=unknown_command");
        assert_eq!(ask(&mut server, 0, "cmd=finalize"), "cmd=finalize_ack rc=0");
        assert!(!server.is_member(0));
    }

    #[test]
    fn keys_are_written_once_and_refusals_have_a_reason() {
        let mut server = Server::new(&[1], 7);
        assert!(ask(&mut server, 0, "cmd=put kvsname=kvs_7_0 key=a value=1").contains("rc=0"));
        assert!(ask(&mut server, 0, "key=a cmd=get").ends_with("value=1"));
        assert!(ask(&mut server, 0, "cmd=get key=b").contains("rc=1"));
        let long = format!("cmd=put key={} value=1", "k".repeat(64));
        for (line, why) in [
            ("cmd=put key=a value=2", "duplicate"),
            ("cmd=put key=b", "missing"),
            ("cmd=put kvsname=other key=b value=1", "kvsname"),
            (&long, "long"),
        ] {
            let answer = ask(&mut server, 0, line);
            assert!(answer.contains("rc=-1") && answer.contains(why), "{line}: {answer}");
        }
        assert!(ask(&mut server, 0, "cmd=get key=a").ends_with("value=1"));
    }

    #[test]
    fn a_barrier_ends_with_the_last_arrival_and_can_be_repeated() {
        let mut server = Server::new(&[3], 7);
        for order in [[0, 1, 2], [2, 0, 1]] {
            let mut replies = Replies::new();
            for (step, rank) in order.into_iter().enumerate() {
                assert!(replies.is_empty(), "before step {step}");
                server.line(rank, "cmd=barrier_in", &mut replies);
            }
            let ranks: Vec<usize> = replies.iter().map(|(rank, _)| *rank).collect();
            assert_eq!(ranks, [0, 1, 2]);
        }
    }

    #[test]
    fn a_barrier_that_cannot_complete_is_found_in_either_order() {
        let mut server = Server::new(&[3], 7);
        server.gone(2);
        assert_eq!(server.stuck(), None);
        server.line(1, "cmd=barrier_in", &mut Replies::new());
        assert_eq!(server.stuck(), Some((2, 1)));
        let mut server = Server::new(&[2], 7);
        server.line(0, "cmd=barrier_in", &mut Replies::new());
        assert_eq!(server.stuck(), None);
        server.line(1, "cmd=finalize", &mut Replies::new());
        assert_eq!(server.stuck(), Some((1, 0)));
    }

    #[test]
    fn an_abort_has_a_status_and_a_reason() {
        let mut server = Server::new(&[1], 7);
        for (line, code, why) in [
            ("cmd=abort exitcode=3 why=612062", 3, "a b"),
            ("cmd=abort exitcode=-1 error_msg=text", -1, "text"),
            ("cmd=abort", 1, ""),
        ] {
            let request = server.line(0, line, &mut Replies::new());
            assert_eq!(request, Request::Abort { code, why: why.to_owned() }, "{line}");
        }
    }
}
