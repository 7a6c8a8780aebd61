//! The general case: the exact optimum over all conflict-free sets, by dynamic programming over the trie.
//!
//! The parts of the cost are settled one after the other. Fewest branch nodes is a tree knapsack over the number of
//! candidates. The depth of the deepest branch node counts from where the set first parts, so each such top node is tried with
//! growing depth; then growing longest length. What is left, variance and pool order, is settled by keeping for every
//! (candidates, branch nodes, sum of lengths) the least sum of squares and, of equals, the set first in pool order. Replacing a
//! part of a set by one that comes first in pool order keeps the whole first, so the best parts make the best whole.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::trie::{Node, Trie};
use super::{Cost, Selection};
use crate::error::{Error, ErrorKind};

/// Combinations of partial sets tried before the search gives up with an error: a second or so of work.
const WORK_LIMIT: u64 = 20_000_000;
/// Partial sets held at a node before it does: with their masks about 50 MB.
const SETS_LIMIT: usize = 200_000;

const NONE: u32 = u32::MAX;

pub(super) fn search(trie: &Trie, n: usize) -> Result<Option<Selection>, Error> {
    if trie.root.capacity() < n {
        return Ok(None);
    }
    let mut tops: Vec<&Node> = Vec::new();
    trie.root.walk(&mut |node| {
        if node.branches() && node.capacity() >= n {
            tops.push(node);
        }
    });
    let mut work = Work(0);
    let free = Limits { deepest: u32::MAX, longest: u32::MAX };
    // Fewest branch nodes, then the least depth that allows them, then the least longest length.
    let least = |limits: &dyn Fn(&Node) -> Limits, work: &mut Work| -> Result<u32, Error> {
        tops.iter().try_fold(NONE, |best, top| Ok(best.min(at(&fewest(top, n, limits(top), work)?, n))))
    };
    let branch_nodes = least(&|_| free, &mut work)?;
    let mut depths: Vec<u32> = tops.iter().flat_map(|top| branch_depths(top)).collect();
    let depth = first_that_allows(&mut depths, |depth| {
        Ok(least(&|top| Limits { deepest: top.depth.saturating_add(depth), ..free }, &mut work)? == branch_nodes)
    })?;
    let mut lengths = leaf_lengths(&trie.root);
    let longest = first_that_allows(&mut lengths, |longest| {
        Ok(least(&|top| Limits { deepest: top.depth.saturating_add(depth), longest }, &mut work)? == branch_nodes)
    })?;
    let mut best: Option<(u64, Mask)> = None;
    for top in tops {
        let limits = Limits { deepest: top.depth.saturating_add(depth), longest };
        for (key, (squares, mask)) in sets(top, n, branch_nodes, limits, trie.codes, &mut work)? {
            if key.count as usize != n || key.branches != branch_nodes {
                continue;
            }
            let variance = n as u64 * squares - key.sum * key.sum;
            let candidate = (variance, mask);
            if best.as_ref().is_none_or(|held| order(&candidate, held) == Ordering::Less) {
                best = Some(candidate);
            }
        }
    }
    Ok(best.map(|(variance, mask)| Selection {
        cost: Cost { branch_nodes, depth, longest, variance },
        members: mask.members(),
    }))
}

/// What a set may hold: branch nodes no deeper than, leaves no longer than.
#[derive(Clone, Copy)]
struct Limits {
    deepest: u32,
    longest: u32,
}

/// Counts steps so that a hostile vocabulary ends in an error, not in a hang.
struct Work(u64);

impl Work {
    fn add(&mut self, steps: usize) -> Result<(), Error> {
        self.0 += steps as u64;
        Self::within(self.0 <= WORK_LIMIT)
    }

    fn within(limit_kept: bool) -> Result<(), Error> {
        if limit_kept {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::CodebookLimit,
            "",
            "the exact codebook search exceeds its work limit for this tokenizer; give fewer choices or use labels scoring",
        ))
    }
}

fn first_that_allows(values: &mut Vec<u32>, mut allows: impl FnMut(u32) -> Result<bool, Error>) -> Result<u32, Error> {
    values.sort_unstable();
    values.dedup();
    for &value in values.iter() {
        if allows(value)? {
            return Ok(value);
        }
    }
    // The largest value is no limit at all.
    Ok(values.last().copied().unwrap_or_default())
}

fn branch_depths(top: &Node) -> Vec<u32> {
    let mut out = Vec::new();
    top.walk(&mut |node| {
        if node.branches() {
            out.push(node.depth - top.depth);
        }
    });
    out
}

fn leaf_lengths(root: &Node) -> Vec<u32> {
    let mut out = Vec::new();
    root.walk(&mut |node| out.extend(node.terminal.map(|_| node.depth)));
    out
}

fn at(counts: &[u32], n: usize) -> u32 {
    counts.get(n).copied().unwrap_or(NONE)
}

/// Fewest branch nodes below `node` for each number of candidates, 0 to `n`.
fn fewest(node: &Node, n: usize, limits: Limits, work: &mut Work) -> Result<Vec<u32>, Error> {
    // Candidates from one child only need no branch node here; from several they need this one.
    let mut alone = vec![0];
    let mut several: Vec<u32> = vec![0];
    for child in &node.children {
        let below = fewest(child, n, limits, work)?;
        let mut merged = vec![NONE; (several.len() + below.len() - 1).min(n + 1)];
        work.add(several.len() * below.len())?;
        for (i, &a) in several.iter().enumerate() {
            for (j, &b) in below.iter().enumerate().take_while(|(j, _)| i + j <= n) {
                if a != NONE && b != NONE {
                    merged[i + j] = merged[i + j].min(a + b);
                }
            }
        }
        several = merged;
        if alone.len() < below.len() {
            alone.resize(below.len(), NONE);
        }
        for (held, &b) in std::iter::zip(&mut alone, &below) {
            *held = b.min(*held);
        }
    }
    let mut out = alone;
    if node.depth <= limits.deepest {
        out.resize(out.len().max(several.len()), NONE);
        for (held, &s) in std::iter::zip(&mut out, &several).skip(1) {
            *held = (*held).min(s.saturating_add(1));
        }
    }
    if node.terminal.is_some() && node.depth <= limits.longest {
        out.resize(out.len().max(2), NONE);
        out[1] = 0;
    }
    Ok(out)
}

/// What of a partial set matters for the rest: how many, through how many branch nodes, how long together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    count: u32,
    branches: u32,
    sum: u64,
}

/// The best partial set for each key: least sum of squares, then first in pool order.
type Sets = HashMap<Key, (u64, Mask)>;

fn sets(
    node: &Node,
    n: usize,
    most_branches: u32,
    limits: Limits,
    codes: usize,
    work: &mut Work,
) -> Result<Sets, Error> {
    let nothing = Key { count: 0, branches: 0, sum: 0 };
    let empty = (nothing, (0, Mask::new(codes)));
    let mut alone: Sets = HashMap::from([empty.clone()]);
    let mut several: Sets = HashMap::from([empty]);
    for child in &node.children {
        let below = sets(child, n, most_branches, limits, codes, work)?;
        work.add(several.len() * below.len())?;
        let mut merged = several.clone();
        for (a, (squares_a, mask_a)) in &several {
            for (b, (squares_b, mask_b)) in below.iter().filter(|(b, _)| b.count > 0) {
                let key = Key { count: a.count + b.count, branches: a.branches + b.branches, sum: a.sum + b.sum };
                if key.count as usize <= n && key.branches <= most_branches {
                    keep(&mut merged, key, squares_a + squares_b, || mask_a.with(mask_b));
                }
            }
        }
        Work::within(merged.len() <= SETS_LIMIT)?;
        several = merged;
        for (key, (squares, mask)) in below {
            keep(&mut alone, key, squares, || mask);
        }
    }
    let mut out = alone;
    if node.depth <= limits.deepest {
        for (key, (squares, mask)) in several {
            let key = Key { branches: key.branches + 1, ..key };
            if key.count >= 2 && key.branches <= most_branches {
                keep(&mut out, key, squares, || mask);
            }
        }
    }
    if let Some(index) = node.terminal.filter(|_| node.depth <= limits.longest) {
        let length = u64::from(node.depth);
        let key = Key { count: 1, branches: 0, sum: length };
        keep(&mut out, key, length * length, || Mask::new(codes).and(index));
    }
    Ok(out)
}

fn keep(sets: &mut Sets, key: Key, squares: u64, mask: impl FnOnce() -> Mask) {
    use std::collections::hash_map::Entry;
    match sets.entry(key) {
        Entry::Vacant(place) => {
            place.insert((squares, mask()));
        }
        Entry::Occupied(mut held) => {
            if squares > held.get().0 {
                return;
            }
            let candidate = (squares, mask());
            if order(&candidate, held.get()) == Ordering::Less {
                held.insert(candidate);
            }
        }
    }
}

fn order(a: &(u64, Mask), b: &(u64, Mask)) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.pool_order(&b.1))
}

/// A set of pool indices, as bits.
#[derive(Clone, PartialEq, Eq)]
struct Mask(Box<[u64]>);

impl Mask {
    fn new(codes: usize) -> Self {
        Self(vec![0; codes.div_ceil(64)].into_boxed_slice())
    }

    /// Index 0 is the highest bit of the first word, so that words compare as sets of one size do in pool order.
    fn and(mut self, index: usize) -> Self {
        self.0[index / 64] |= 1 << (63 - index % 64);
        self
    }

    fn with(&self, other: &Self) -> Self {
        Self(std::iter::zip(&self.0, &other.0).map(|(a, b)| a | b).collect())
    }

    /// `Less` for the set that comes first: the one that holds the smallest index the other lacks.
    fn pool_order(&self, other: &Self) -> Ordering {
        other.0.cmp(&self.0)
    }

    fn members(&self) -> Vec<usize> {
        (0..self.0.len() * 64).filter(|index| self.0[index / 64] >> (63 - index % 64) & 1 == 1).collect()
    }
}
