//! Whether bytes of a layout's items overlap. The result is exact. Arithmetic suffices where no
//! repetition reaches into another one, or where all strips have one step; otherwise a sweep over
//! the strips in the order of their addresses decides. Knows no datatypes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::layout::{Layout, Loop, Strip};

/// Up to this many streams are compared by pairs.
const PAIRS: usize = 256;

/// `count` blocks of `length` bytes, `stride` bytes apart, from `start` upwards. Wide enough for
/// items whose offsets are not `i64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stream {
    start: i128,
    length: i128,
    count: i128,
    stride: i128,
}

impl Stream {
    fn end(&self) -> i128 {
        self.start + ((self.count - 1) * self.stride + self.length)
    }
}

impl From<&Strip> for Stream {
    fn from(strip: &Strip) -> Stream {
        Stream {
            start: strip.span().0.into(),
            length: strip.block as i128,
            count: strip.count as i128,
            stride: i128::from(strip.stride).abs(),
        }
    }
}

/// A repetition of all that is inside it.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    count: i128,
    stride: i128,
}

impl Dimension {
    /// The span of this dimension if each repetition spans `width` bytes.
    fn widened(&self, width: i128) -> i128 {
        (self.count - 1).saturating_mul(self.stride).saturating_add(width)
    }
}

/// Whether bytes of `count` items of `layout`, `extent` bytes apart, overlap. `width` is the span
/// of one item.
pub(super) fn overlap(layout: &Layout, width: i64, extent: i64, count: usize) -> bool {
    if count == 0 || layout.strips.is_empty() {
        return false;
    }
    let mut dimensions: Vec<Dimension> = Vec::new();
    let items = Loop { count, stride: extent };
    for repeat in layout.loops.iter().chain([&items]).filter(|repeat| repeat.count > 1) {
        dimensions.push(Dimension { count: repeat.count as i128, stride: i128::from(repeat.stride).abs() });
    }
    let mut streams: Vec<Stream> = layout.strips.iter().map(Stream::from).collect();
    if let [only] = &mut streams[..]
        && only.count > 1
    {
        dimensions.push(Dimension { count: only.count, stride: only.stride });
        only.count = 1;
    }
    dimensions.sort_unstable_by_key(|dimension| dimension.stride);
    let base = span(&streams);
    debug_assert!(base <= i128::from(width), "one repetition of the strips is no wider than an item");
    let entangled = entangled(&dimensions, base);
    let dimensions = &dimensions[..entangled];
    if surely_overlaps(dimensions, &streams, base) {
        return true;
    }
    streams_overlap(&mut spread(dimensions, streams))
}

/// The bytes from the lowest to the end of the highest.
fn span(streams: &[Stream]) -> i128 {
    let low = streams.iter().map(|stream| stream.start).min().unwrap_or(0);
    let high = streams.iter().map(Stream::end).max().unwrap_or(0);
    high - low
}

/// How many of the dimensions (sorted by stride) can cause overlaps. The stride of each further
/// dimension exceeds the span of its content.
fn entangled(dimensions: &[Dimension], base: i128) -> usize {
    let mut width = base;
    let mut needed = 0;
    for (index, dimension) in dimensions.iter().enumerate() {
        if dimension.stride < width {
            needed = index + 1;
        }
        width = dimension.widened(width);
    }
    needed
}

/// Whether strides and sizes alone prove an overlap, without the positions of blocks.
fn surely_overlaps(dimensions: &[Dimension], streams: &[Stream], base: i128) -> bool {
    let longest = streams.iter().map(|stream| stream.length).max().unwrap_or(0);
    if dimensions.iter().any(|dimension| dimension.stride < longest) {
        return true;
    }
    let width = dimensions.iter().fold(base, |width, dimension| dimension.widened(width));
    let bytes: i128 = streams.iter().map(|stream| stream.length * stream.count).sum();
    if dimensions.iter().fold(bytes, |bytes, dimension| bytes.saturating_mul(dimension.count)) > width {
        return true;
    }
    // Two dimensions meet where a multiple of one stride is a multiple of the other.
    dimensions.iter().enumerate().any(|(index, a)| {
        dimensions[..index].iter().any(|b| {
            let common = greatest_common_divisor(a.stride, b.stride);
            b.stride / common < a.count && a.stride / common < b.count
        })
    })
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// All repetitions of the streams, as streams along the longest dimension where these are fewer.
fn spread(dimensions: &[Dimension], streams: Vec<Stream>) -> Vec<Stream> {
    let Some(longest) = (0..dimensions.len()).max_by_key(|&index| dimensions[index].count) else { return streams };
    let blocks: i128 = streams.iter().map(|stream| stream.count).sum();
    let along = dimensions[longest];
    let mut others = dimensions.to_vec();
    let mut all = streams;
    if blocks < along.count * all.len() as i128 {
        others.remove(longest);
        all = all
            .iter()
            .flat_map(blocks_of)
            .map(|block| Stream { count: along.count, stride: along.stride, ..block })
            .collect();
    }
    for dimension in others {
        all = (0..dimension.count)
            .flat_map(|step| {
                all.iter().map(move |stream| Stream { start: stream.start + step * dimension.stride, ..*stream })
            })
            .collect();
    }
    all
}

fn blocks_of(stream: &Stream) -> impl Iterator<Item = Stream> {
    let stream = *stream;
    (0..stream.count).map(move |index| Stream {
        start: stream.start + index * stream.stride,
        count: 1,
        stride: 0,
        ..stream
    })
}

/// Whether any two blocks overlap.
fn streams_overlap(streams: &mut [Stream]) -> bool {
    if streams.iter().any(|stream| stream.count > 1 && stream.stride < stream.length) {
        return true;
    }
    streams.sort_unstable();
    let mut end = i128::MIN;
    let apart = streams.iter().all(|stream| {
        let clear = stream.start >= end;
        end = end.max(stream.end());
        clear
    });
    if apart {
        return false;
    }
    let stride = streams.iter().map(|stream| stream.stride).max().unwrap_or(0);
    if streams.len() <= PAIRS && streams.iter().all(|stream| stream.count == 1 || stream.stride == stride) {
        return pairs_overlap(streams, stride);
    }
    sweep(streams)
}

/// Whether any two streams overlap. All have this stride, apart from streams of a single block.
fn pairs_overlap(streams: &[Stream], stride: i128) -> bool {
    let stride = stride.max(1);
    streams.iter().enumerate().any(|(index, a)| {
        streams[..index].iter().any(|b| {
            // Blocks i of a and j of b overlap where -b.length < distance + (j - i) * stride <
            // a.length.
            let distance = b.start - a.start;
            let steps = (-b.length - distance).div_euclid(stride) + 1;
            let steps = steps.max(1 - a.count);
            steps < b.count && distance + steps * stride < a.length
        })
    })
}

/// Goes through the blocks in the order of their addresses; `streams` are sorted, and none overlaps
/// itself.
fn sweep(streams: &[Stream]) -> bool {
    let mut waiting = streams.iter().copied().peekable();
    let mut active: BinaryHeap<Reverse<Stream>> = BinaryHeap::new();
    let mut end = i128::MIN;
    loop {
        let next_waiting = waiting.peek().map(|stream| stream.start);
        let next_active = active.peek().map(|Reverse(stream)| stream.start);
        let from_waiting = match (next_waiting, next_active) {
            (None, None) => return false,
            (Some(new), Some(old)) => new <= old,
            (new, _) => new.is_some(),
        };
        let popped = if from_waiting { waiting.next() } else { active.pop().map(|Reverse(stream)| stream) };
        let Some(stream) = popped else { return false };
        if stream.start < end {
            return true;
        }
        // The blocks of this stream that begin before the next block of any other stream.
        let others = [waiting.peek().map(|other| other.start), active.peek().map(|Reverse(other)| other.start)];
        let alone = match others.into_iter().flatten().min() {
            Some(other) if stream.count > 1 => (other - stream.start - 1).div_euclid(stream.stride) + 1,
            Some(_) => 1,
            None => stream.count,
        };
        let alone = alone.clamp(1, stream.count);
        let start = stream.start + alone * stream.stride;
        end = start - stream.stride + stream.length;
        if alone < stream.count {
            active.push(Reverse(Stream { start, count: stream.count - alone, ..stream }));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(streams: &[Stream]) -> bool {
        let mut blocks: Vec<Stream> = streams.iter().flat_map(blocks_of).collect();
        blocks.sort_unstable();
        blocks.windows(2).any(|two| two[1].start < two[0].start + two[0].length)
    }

    fn streams(same_stride: bool) -> impl Strategy<Value = Vec<Stream>> {
        (3..40i128, prop::collection::vec((0..60i128, 1..4i128, 1..8i128, 1..40i128), 1..6)).prop_map(
            move |(stride, all)| {
                all.into_iter()
                    .map(|(start, length, count, own)| Stream {
                        start,
                        length,
                        count,
                        stride: length.max(if same_stride { stride } else { own }),
                    })
                    .collect()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_sweep_agrees_with_comparing_all_blocks(mut streams in streams(false)) {
            streams.sort_unstable();
            prop_assert_eq!(sweep(&streams), naive(&streams));
            prop_assert_eq!(streams_overlap(&mut streams.clone()), naive(&streams));
        }

        #[test]
        fn streams_of_one_stride_are_compared_by_pairs(streams in streams(true)) {
            let stride = streams[0].stride;
            prop_assert_eq!(pairs_overlap(&streams, stride), naive(&streams));
        }
    }
}
