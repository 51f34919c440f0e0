//! Which provider is opened, with which progress, and what there is: asked of the library each time, never assumed
//! (FACTS of 1.17 and 2.x differ). Safe code: it looks at what `fi_getinfo` answered.

use std::sync::Arc;

use transom_fabric::FabricError;

use crate::library::{Info, Library};
use crate::sys;

/// The order in which providers are tried where the user names none.
pub const PREFERRED: [&str; 4] = ["tcp;ofi_rxm", "tcp", "net", "sockets"];

/// Providers that keep to it when they are asked for manual data progress: then they start no thread of their own, which
/// would delay every operation, and a descriptor tells when a thread of ours must call.
const MANUAL: [&str; 2] = ["tcp;ofi_rxm", "tcp"];

/// A provider, as `transom-info` lists it.
#[derive(Clone, Debug)]
pub struct ProviderInfo {
    /// Its name.
    pub name: String,
    /// What it offers; or why it can't be used.
    pub offer: Result<Offer, String>,
}

/// What a provider says of itself. A probe shows what of it is true.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Remote atomics.
    pub atomics: bool,
    /// The longest message that is copied at once, in bytes.
    pub inject: usize,
    /// The registration mode bits (man fi_mr).
    pub mr_mode: i32,
    /// Whether it says that it can serve targets that make no call. It is opened so only where it has no manual
    /// progress to be relied on.
    pub auto_progress: bool,
}

/// Finds a provider: the one that is named, or the first of [`PREFERRED`].
pub(crate) fn choose(library: &Arc<Library>, wanted: Option<&str>, loopback: bool) -> Result<Info, FabricError> {
    let mut refusals = Vec::new();
    let names = wanted.map_or_else(|| PREFERRED.to_vec(), |name| vec![name]);
    for name in names {
        match query(library, name, loopback) {
            Ok(info) => return Ok(info),
            Err(error) => refusals.push(format!("{name}: {}", library.strerror(error))),
        }
    }
    let reason = format!("{library:?} has no provider that fits: {}", refusals.join("; "));
    Err(FabricError::Unavailable { transport: "libfabric", reason })
}

/// Asks for a provider: with atomics if it has them, and with the progress that is best for it.
pub(crate) fn query(library: &Arc<Library>, name: &str, loopback: bool) -> Result<Info, isize> {
    let all = [sys::FI_PROGRESS_MANUAL, sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];
    query_with(library, name, loopback, if MANUAL.contains(&name) { &all } else { &all[1..] })
}

/// Whether peers' operations need calls at the target: with manual data progress they do, by definition (man fi_domain).
pub(crate) fn is_manual(info: &Info) -> bool {
    info.domain().data_progress == sys::FI_PROGRESS_MANUAL
}

/// The first answer: the atomics matter more than the progress, which is tried in order.
fn query_with(library: &Arc<Library>, name: &str, loopback: bool, progress: &[u32]) -> Result<Info, isize> {
    let mut last = -61;
    for atomics in [sys::FI_ATOMIC, 0] {
        for &progress in progress {
            match ask(library, name, loopback, atomics, progress) {
                Ok(info) if is(&info, name) => return Ok(info),
                Ok(_) => {}
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}

fn ask(library: &Arc<Library>, name: &str, loopback: bool, atomics: u64, progress: u32) -> Result<Info, isize> {
    library.query(name, loopback.then_some("127.0.0.1"), |hints, domain, endpoint| {
        hints.caps = sys::FI_MSG | sys::FI_RMA | atomics;
        hints.mode = sys::FI_CONTEXT | sys::FI_CONTEXT2;
        endpoint.type_ = sys::FI_EP_RDM;
        domain.mr_mode = sys::FI_MR_LOCAL | sys::FI_MR_VIRT_ADDR | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY;
        domain.threading = sys::FI_THREAD_SAFE;
        domain.data_progress = progress;
        domain.av_type = sys::FI_AV_TABLE;
    })
}

/// Whether what was found is what was asked for: 1.17 answers `tcp` with `tcp;ofi_rxm`.
fn is(info: &Info, name: &str) -> bool {
    info.provider() == name
}

/// Lists the providers that this version knows, with what each offers.
///
/// # Errors
/// The library is not there.
pub fn providers(soname: &str) -> Result<(String, Vec<ProviderInfo>), FabricError> {
    let library = Library::open(soname)?;
    let said = [sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_UNSPEC];
    let offer = |name: &str| {
        query_with(&library, name, true, &said).map_err(|error| library.strerror(error)).map(|info| Offer {
            atomics: info.main().caps & sys::FI_ATOMIC != 0,
            inject: info.transmit().inject_size,
            mr_mode: info.domain().mr_mode,
            auto_progress: info.domain().data_progress == sys::FI_PROGRESS_AUTO,
        })
    };
    let list = PREFERRED.map(|name| ProviderInfo { name: name.to_owned(), offer: offer(name) });
    Ok((library.version(), list.to_vec()))
}
