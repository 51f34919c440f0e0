//! Operations with requests and their wait, compared with the plain call and its completion: the
//! floor is the library's own plain call.

use transom::{Job, Window};

use crate::iterations::{counts, window_with_pattern};
use crate::kinds::Test;
use crate::measure::{Batch, alternate};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::pattern;
use crate::report::Row;

/// Measures puts or gets of one size with a request. Returns the row at the origin.
pub(crate) fn measure(world: &Job, options: &Options, size: usize, turn: usize) -> Outcome<Option<Row>> {
    let gets = options.test == Test::RequestGet;
    let (win, mut buffer) = window_with_pattern(world, options, (size, turn), gets)?;
    let row = match world.rank() {
        0 if gets => Some(get(options, &win, &mut buffer, turn)?),
        0 => Some(put(options, &win, &buffer)?),
        _ => None,
    };
    world.barrier()?;
    if options.check && !gets && world.rank() == 1 {
        win.load(0, &mut buffer)?;
        pattern::verify("put", &buffer, turn)?;
    }
    win.free()?;
    Ok(row)
}

fn put(options: &Options, win: &Window<u8>, source: &[u8]) -> Outcome<Row> {
    win.lock_all(|epoch| {
        let mut requests = |count: usize| Ok((0..count).try_for_each(|_| epoch.rput(1, 0, source)?.wait())?);
        let mut plain = |count: usize| {
            Ok((0..count).try_for_each(|_| {
                epoch.put(1, 0, source)?;
                epoch.flush(1)
            })?)
        };
        Ok(row(options, source.len(), &mut requests, &mut plain))
    })?
}

fn get(options: &Options, win: &Window<u8>, buffer: &mut [u8], turn: usize) -> Outcome<Row> {
    let size = buffer.len();
    let mut own = vec![0; size];
    let row = win.lock_all(|epoch| {
        let mut one = || epoch.scope(|part| part.rget(1, 0, &mut own)?.wait());
        let mut requests = |count: usize| Ok((0..count).try_for_each(|_| one())?);
        let mut plain =
            |count: usize| Ok((0..count).try_for_each(|_| epoch.scope(|part| part.get(1, 0, &mut *buffer)))?);
        Ok(row(options, size, &mut requests, &mut plain))
    })??;
    if options.check {
        pattern::verify("get with a request", &own, turn)?;
    }
    Ok(row)
}

fn row(options: &Options, size: usize, requests: &mut Batch<'_>, plain: &mut Batch<'_>) -> Outcome<Row> {
    let (requests, plain) = alternate(counts(options, size), requests, options.vs_floor.then_some(plain))?;
    Ok(Row::new(size, requests, plain))
}
