//! The search against enumeration, on vocabularies small enough to enumerate.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Cost, Selection, best_codes};

/// All sets of `n` indices, lexicographically.
fn subsets(codes: usize, n: usize) -> Vec<Vec<usize>> {
    fn extend(codes: usize, n: usize, held: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
        if held.len() == n {
            out.push(held.clone());
            return;
        }
        for next in held.last().map_or(0, |&last| last + 1)..codes {
            held.push(next);
            extend(codes, n, held, out);
            held.pop();
        }
    }
    let mut out = Vec::new();
    extend(codes, n, &mut Vec::new(), &mut out);
    out
}

/// The cost of a set as the contract states it, or `None` where two members conflict.
fn cost(candidates: &[Vec<u32>], members: &[usize]) -> Option<Cost> {
    let lists: Vec<&Vec<u32>> = members.iter().map(|&at| &candidates[at]).collect();
    for (i, a) in lists.iter().enumerate() {
        if lists.iter().enumerate().any(|(j, b)| i != j && b.starts_with(a)) {
            return None;
        }
    }
    let mut next: BTreeMap<&[u32], Vec<u32>> = BTreeMap::new();
    for list in &lists {
        for (at, &token) in list.iter().enumerate() {
            let tokens = next.entry(&list[..at]).or_default();
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
    }
    let branches: Vec<usize> = next.iter().filter(|(_, t)| t.len() > 1).map(|(prefix, _)| prefix.len()).collect();
    let first = branches.iter().min().copied().unwrap_or(0);
    let deepest = branches.iter().max().copied().unwrap_or(0);
    let lengths: Vec<u64> = lists.iter().map(|list| list.len() as u64).collect();
    let sum: u64 = lengths.iter().sum();
    Some(Cost {
        branch_nodes: branches.len() as u32,
        depth: (deepest - first) as u32,
        longest: lengths.iter().max().copied().unwrap_or(0) as u32,
        variance: lists.len() as u64 * lengths.iter().map(|l| l * l).sum::<u64>() - sum * sum,
    })
}

fn enumerated(candidates: &[Vec<u32>], n: usize) -> Option<Selection> {
    // `min_by_key` keeps the first of equals, which is the first in pool order.
    subsets(candidates.len(), n)
        .into_iter()
        .filter_map(|members| Some(Selection { cost: cost(candidates, &members)?, members }))
        .min_by_key(|selection| selection.cost)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn search_equals_enumeration(
        candidates in prop::collection::vec(prop::collection::vec(0u32..4, 1..5), 1..11),
        n in 1usize..7,
    ) {
        prop_assert_eq!(best_codes(&candidates, n).unwrap(), enumerated(&candidates, n));
    }

    #[test]
    fn search_equals_enumeration_with_a_common_beginning(
        tails in prop::collection::vec(prop::collection::vec(0u32..3, 0..6), 2..10),
        n in 2usize..6,
    ) {
        let candidates: Vec<Vec<u32>> = tails.into_iter().map(|tail| [vec![7, 7, 7], tail].concat()).collect();
        prop_assert_eq!(best_codes(&candidates, n).unwrap(), enumerated(&candidates, n));
    }
}

#[test]
fn one_token_per_character_needs_few_branch_nodes() {
    let candidates: Vec<Vec<u32>> =
        super::pools::pairs().iter().map(|code| code.bytes().map(u32::from).collect()).collect();
    let best = best_codes(&candidates, 255).unwrap().unwrap();
    // The first character branches; 7 of its 36 children branch fully (7 · 36 + 29 ≥ 255), the others give one code each.
    assert_eq!(best.cost, Cost { branch_nodes: 8, depth: 1, longest: 2, variance: 0 });
    assert_eq!(best.members.len(), 255);
}

#[test]
fn a_vocabulary_that_tells_nothing_apart_has_no_codebook() {
    assert_eq!(best_codes(&vec![vec![1, 2]; 36], 2).unwrap(), None);
    assert_eq!(best_codes(&[], 1).unwrap(), None);
}
