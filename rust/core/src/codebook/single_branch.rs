//! The common case: one branch node, and all candidates of one length.
//!
//! With a single branch node the set takes at most one leaf from each of the node's children. The least longest length L is
//! the n-th smallest of the children's shortest leaves, over all nodes. Where n children of such a node have a leaf of exactly
//! L tokens the variance is zero, so the first n of them in pool order are the optimum. This covers the real vocabularies for
//! every n; where it does not, the general search takes over.

use super::trie::{Node, Trie};
use super::{Cost, Selection};

/// Leaves of a subtree as (length, first index of that length), by length.
type Leaves = Vec<(u32, usize)>;

/// Whether some node parts into at least `n` ways.
pub(super) fn reachable(trie: &Trie, n: usize) -> bool {
    let mut found = false;
    trie.root.walk(&mut |node| found |= node.children.len() >= n);
    found
}

/// The optimum if it has at most one branch node and no variance.
pub(super) fn search(trie: &Trie, n: usize) -> Option<Selection> {
    if n == 1 {
        let (longest, index) = leaves(&trie.root, n, &mut |_| ()).into_iter().next()?;
        return Some(Selection { cost: cost(0, longest), members: vec![index] });
    }
    // The children's leaves of every node with enough children, and its n-th shortest length.
    let mut wide: Vec<(u32, Vec<Leaves>)> = Vec::new();
    leaves(&trie.root, n, &mut |children| {
        let mut shortest: Vec<u32> = children.iter().map(|leaves| leaves[0].0).collect();
        shortest.sort_unstable();
        wide.push((shortest[n - 1], children.to_vec()));
    });
    let longest = wide.iter().map(|(length, _)| *length).min()?;
    wide.iter()
        .filter(|(length, _)| *length == longest)
        .filter_map(|(_, children)| {
            let mut members: Vec<usize> = children
                .iter()
                .filter_map(|leaves| leaves.iter().find(|(length, _)| *length == longest))
                .map(|&(_, index)| index)
                .collect();
            members.sort_unstable();
            members.truncate(n);
            (members.len() == n).then_some(members)
        })
        .min()
        .map(|members| Selection { cost: cost(1, longest), members })
}

fn cost(branch_nodes: u32, longest: u32) -> Cost {
    Cost { branch_nodes, depth: 0, longest, variance: 0 }
}

/// The leaves below `node`; `wide` sees the children's leaves of each node with at least `n` ≥ 2 children.
fn leaves(node: &Node, n: usize, wide: &mut impl FnMut(&[Leaves])) -> Leaves {
    let children: Vec<Leaves> = node.children.iter().map(|child| leaves(child, n, wide)).collect();
    if children.len() >= n.max(2) {
        wide(&children);
    }
    let mut all: Leaves = node.terminal.map(|index| (node.depth, index)).into_iter().collect();
    for &(length, index) in children.iter().flatten() {
        match all.iter_mut().find(|(held, _)| *held == length) {
            Some((_, first)) => *first = index.min(*first),
            None => all.push((length, index)),
        }
    }
    all.sort_unstable();
    all
}
