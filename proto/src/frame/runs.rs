//! Deflate for seat maps: one dynamic Huffman block in which only repeats of the byte before are
//! matched (distance 1). Seat states are runs and noise; searching for longer patterns finds matches
//! that cost more than the literals they replace, and takes ten times as long. Any inflater reads it.
//! `encode` is the caller; the numbers of the format are those of RFC 1951.

/// Longest match the format has.
const MAX_MATCH: usize = 258;
/// Runs shorter than this stay literals; the cheapest of these is chosen for each payload.
const MIN_MATCHES: [usize; 4] = [3, 5, 9, usize::MAX];
const END_OF_BLOCK: usize = 256;
/// Literals, end of block, lengths.
const SYMBOLS: usize = 286;
const MAX_CODE_BITS: u8 = 15;
/// Codes that write the code lengths themselves.
const LENGTH_SYMBOLS: usize = 19;
const MAX_LENGTH_CODE_BITS: u8 = 7;
/// The order in which RFC 1951 writes the lengths of those codes.
const LENGTH_ORDER: [usize; LENGTH_SYMBOLS] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Deflates `input` (not empty) into `out`, replacing what is there. Uses no other memory.
pub(super) fn deflate_runs(input: &[u8], out: &mut Vec<u8>) {
    let mut best: Option<(u64, usize, [u8; SYMBOLS])> = None;
    for min_match in MIN_MATCHES {
        let mut counts = [0_u32; SYMBOLS];
        let mut extra_bits = 0_u64;
        for_each_token(input, min_match, |token| {
            counts[token.symbol()] += 1;
            extra_bits += token.extra().map_or(0, |(_, bits)| u64::from(bits) + 1);
        });
        let lengths = code_lengths(&counts, MAX_CODE_BITS);
        let code_bits: u64 = counts.iter().zip(lengths).map(|(count, bits)| u64::from(*count) * u64::from(bits)).sum();
        if best.is_none_or(|(bits, ..)| code_bits + extra_bits < bits) {
            best = Some((code_bits + extra_bits, min_match, lengths));
        }
    }
    let (_, min_match, lengths) = best.expect("there is at least one way");
    out.clear();
    let mut bits = BitWriter { out, pending: 0, pending_bits: 0 };
    write_block_header(&mut bits, &lengths);
    let codes = codes(&lengths);
    for_each_token(input, min_match, |token| {
        let symbol = token.symbol();
        bits.write(u32::from(codes[symbol]), lengths[symbol]);
        if let Some((value, extra_bits)) = token.extra() {
            // The one distance code has one bit, 0: the byte before.
            bits.write(value, extra_bits + 1);
        }
    });
    bits.finish();
}

#[derive(Clone, Copy)]
enum Token {
    Literal(u8),
    Match(usize),
    End,
}

impl Token {
    fn symbol(self) -> usize {
        match self {
            Self::Literal(byte) => usize::from(byte),
            Self::End => END_OF_BLOCK,
            Self::Match(length) => length_symbol(length).0,
        }
    }

    /// Value and number of the bits after a length symbol; none for other symbols.
    fn extra(self) -> Option<(u32, u8)> {
        match self {
            Self::Match(length) => {
                let (_, value, bits) = length_symbol(length);
                Some((value, bits))
            }
            Self::Literal(_) | Self::End => None,
        }
    }
}

/// Symbol, extra value and extra bits of a match length from 3 to 258: four symbols share each
/// number of extra bits, the first eight have none, and 258 has its own.
fn length_symbol(length: usize) -> (usize, u32, u8) {
    if length == MAX_MATCH {
        return (285, 0, 0);
    }
    let offset = length - 3;
    if offset < 8 {
        return (257 + offset, 0, 0);
    }
    let bits = offset.ilog2() - 2;
    let quarter = offset >> bits;
    let symbol = 257 + 4 * bits as usize + quarter;
    (symbol, (offset & ((1 << bits) - 1)) as u32, bits as u8)
}

fn for_each_token(input: &[u8], min_match: usize, mut visit: impl FnMut(Token)) {
    for run in input.chunk_by(PartialEq::eq) {
        visit(Token::Literal(run[0]));
        let mut left = run.len() - 1;
        while left >= min_match {
            let length = left.min(MAX_MATCH);
            visit(Token::Match(length));
            left -= length;
        }
        for _ in 0..left {
            visit(Token::Literal(run[0]));
        }
    }
    visit(Token::End);
}

/// Huffman code lengths of at most `max_bits`; 0 for what does not occur. When the best code is
/// deeper, counts are flattened until it fits, which costs next to nothing at these sizes.
fn code_lengths<const N: usize>(counts: &[u32; N], max_bits: u8) -> [u8; N] {
    let mut counts = *counts;
    loop {
        let lengths = huffman(&counts);
        if lengths.iter().all(|bits| *bits <= max_bits) {
            return lengths;
        }
        for count in counts.iter_mut().filter(|count| **count > 0) {
            *count = count.div_ceil(2);
        }
    }
}

fn huffman<const N: usize>(counts: &[u32; N]) -> [u8; N] {
    let mut lengths = [0_u8; N];
    let mut leaves: Vec<(u64, usize)> =
        counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, count)| (u64::from(*count), at)).collect();
    if let [(_, only)] = leaves[..] {
        lengths[only] = 1;
        return lengths;
    }
    leaves.sort_unstable();
    // Two queues, both ascending: leaves, and inner nodes in the order they are made. Nodes are
    // numbered leaves first; a node's parent is always made later.
    let leaf_count = leaves.len();
    let mut weights: Vec<u64> = leaves.iter().map(|(count, _)| *count).collect();
    let mut parents = vec![0_usize; leaf_count];
    let (mut leaf, mut inner) = (0, leaf_count);
    for _ in 1..leaf_count {
        let node = weights.len();
        let mut weight = 0;
        for _ in 0..2 {
            let take_leaf = leaf < leaf_count && (inner >= node || weights[leaf] <= weights[inner]);
            let child = if take_leaf { &mut leaf } else { &mut inner };
            weight += weights[*child];
            parents[*child] = node;
            *child += 1;
        }
        weights.push(weight);
        parents.push(0);
    }
    let mut depths = vec![0_u8; weights.len()];
    for node in (0..weights.len().saturating_sub(1)).rev() {
        depths[node] = depths[parents[node]].saturating_add(1);
    }
    for ((_, symbol), depth) in leaves.iter().zip(depths) {
        lengths[*symbol] = depth;
    }
    lengths
}

/// Canonical codes, bits reversed as the stream wants them.
fn codes<const N: usize>(lengths: &[u8; N]) -> [u16; N] {
    let mut per_length = [0_u16; MAX_CODE_BITS as usize + 1];
    for bits in lengths.iter().filter(|bits| **bits > 0) {
        per_length[usize::from(*bits)] += 1;
    }
    let mut next = [0_u16; MAX_CODE_BITS as usize + 1];
    let mut code = 0;
    for bits in 1..next.len() {
        code = (code + per_length[bits - 1]) << 1;
        next[bits] = code;
    }
    lengths.map(|bits| {
        if bits == 0 {
            return 0;
        }
        let code = next[usize::from(bits)];
        next[usize::from(bits)] += 1;
        code.reverse_bits() >> (16 - bits)
    })
}

/// The header of a last dynamic block with these literal and length codes and one distance code.
fn write_block_header(bits: &mut BitWriter<'_>, lengths: &[u8; SYMBOLS]) {
    let used = lengths.iter().rposition(|bits| *bits > 0).expect("end of block always occurs") + 1;
    let mut all = lengths[..used].to_vec();
    all.push(1);
    let mut coded: Vec<(usize, u32, u8)> = Vec::with_capacity(all.len());
    for run in all.chunk_by(PartialEq::eq) {
        push_length_run(&mut coded, usize::from(run[0]), run.len());
    }
    let mut counts = [0; LENGTH_SYMBOLS];
    for (symbol, ..) in &coded {
        counts[*symbol] += 1;
    }
    let length_lengths = code_lengths(&counts, MAX_LENGTH_CODE_BITS);
    let length_codes = codes(&length_lengths);
    let sent = LENGTH_ORDER.iter().rposition(|symbol| length_lengths[*symbol] > 0).map_or(4, |last| (last + 1).max(4));
    bits.write(0b101, 3);
    bits.write((used - 257) as u32, 5);
    bits.write(0, 5);
    bits.write((sent - 4) as u32, 4);
    for symbol in &LENGTH_ORDER[..sent] {
        bits.write(u32::from(length_lengths[*symbol]), 3);
    }
    for (symbol, value, extra_bits) in coded {
        bits.write(u32::from(length_codes[symbol]), length_lengths[symbol]);
        bits.write(value, extra_bits);
    }
}

/// Writes `count` equal code lengths with the repeat symbols 16 (3 to 6 of the one before),
/// 17 (3 to 10 zeros) and 18 (11 to 138 zeros).
fn push_length_run(coded: &mut Vec<(usize, u32, u8)>, length: usize, count: usize) {
    let mut left = count;
    if length != 0 {
        coded.push((length, 0, 0));
        left -= 1;
    }
    while left >= 3 {
        let (symbol, shortest, longest, extra_bits) = match (length, left) {
            (0, 11..) => (18, 11, 138, 7),
            (0, _) => (17, 3, 10, 3),
            _ => (16, 3, 6, 2),
        };
        let taken = left.min(longest);
        coded.push((symbol, (taken - shortest) as u32, extra_bits));
        left -= taken;
    }
    for _ in 0..left {
        coded.push((length, 0, 0));
    }
}

/// Bits, least significant first.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    pending_bits: u32,
}

impl BitWriter<'_> {
    fn write(&mut self, value: u32, bits: u8) {
        self.pending |= u64::from(value) << self.pending_bits;
        self.pending_bits += u32::from(bits);
        while self.pending_bits >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.pending_bits -= 8;
        }
    }

    fn finish(self) {
        if self.pending_bits > 0 {
            self.out.push(self.pending as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_inflates(input: &[u8]) {
        let mut deflated = vec![1, 2, 3];
        deflate_runs(input, &mut deflated);
        let mut inflater = flate2::Decompress::new(false);
        let mut back = vec![0; input.len() + 1];
        let status = inflater.decompress(&deflated, &mut back, flate2::FlushDecompress::Finish).expect("a good stream");
        assert_eq!(status, flate2::Status::StreamEnd);
        assert_eq!(inflater.total_in(), deflated.len() as u64);
        assert_eq!(&back[..usize::try_from(inflater.total_out()).expect("small")], input);
    }

    #[test]
    fn every_match_length_inflates() {
        for length in 1..600 {
            assert_inflates(&vec![7; length]);
            let mut input = vec![0; length];
            input.push(9);
            assert_inflates(&input);
        }
    }

    #[test]
    fn all_bytes_and_very_uneven_counts_inflate() {
        assert_inflates(&(0..=255).collect::<Vec<u8>>());
        // Counts like Fibonacci's make the deepest code there is.
        let (mut a, mut b) = (1_usize, 1_usize);
        let mut input = Vec::new();
        for byte in 0..27_u8 {
            for at in 0..a {
                input.push(byte);
                // Break the runs so that counts stay.
                input.push(100 + (at % 2) as u8);
            }
            (a, b) = (b, a + b);
        }
        assert_inflates(&input);
    }

    proptest! {
        #[test]
        fn anything_inflates_to_itself(
            runs in prop::collection::vec((any::<u8>(), 1_usize..400), 1..60), noise in prop::collection::vec(0_u8..9, 0..400),
        ) {
            let mut input: Vec<u8> = runs.iter().flat_map(|(byte, length)| vec![*byte; *length]).collect();
            input.extend(noise);
            assert_inflates(&input);
        }
    }
}
