//! The alias codebook: the aliases that cost the model least to tell apart, as an exact optimum.

pub mod pools;
mod single_branch;
mod tree;
mod trie;

use crate::error::{Error, ErrorKind, quoted};
use trie::Trie;

/// What a set of aliases costs; the fields are compared in order, less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Branch nodes of the trie of remainders.
    pub branch_nodes: u32,
    /// Depth of the deepest branch node inside the remainders, in tokens.
    pub depth: u32,
    /// The longest candidate, in tokens.
    pub longest: u32,
    /// n·Σl² − (Σl)², which orders sets of one size as the population variance of their lengths does.
    pub variance: u64,
}

/// The best set of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// What it costs.
    pub cost: Cost,
    /// Indices into the pool, ascending.
    pub members: Vec<usize>,
}

/// The set of `n` candidates with the least [`Cost`], none a prefix of another; of equal sets the first in pool order.
///
/// `candidates` are the token ids of each code's candidate. `None` where no `n` of them are free of conflicts.
///
/// # Errors
/// [`ErrorKind::CodebookLimit`] when the exact search would take too much work, which no real vocabulary does.
pub fn best_codes(candidates: &[Vec<u32>], n: usize) -> Result<Option<Selection>, Error> {
    if n == 0 || candidates.len() < n {
        return Ok(None);
    }
    let trie = Trie::new(candidates);
    match single_branch::search(&trie, n) {
        Some(selection) => Ok(Some(selection)),
        None => tree::search(&trie, n),
    }
}

/// Whether a single-character pool reaches one branch node for `n` ≥ 2 choices, so that no other pool is looked at.
pub(crate) fn single_characters_suffice(singles: &[Vec<u32>], n: usize) -> bool {
    n >= 2
        && pools::single_character_ranges()
            .into_iter()
            .any(|range| singles.get(range).is_some_and(|pool| single_branch::reachable(&Trie::new(pool), n)))
}

/// The aliases chosen for a field.
pub(crate) struct Chosen {
    pub(crate) aliases: Vec<String>,
    pub(crate) ids: Vec<Vec<u32>>,
    pub(crate) branch_nodes: u32,
}

/// Picks the aliases of a field from the pools in priority order: the first that reaches one branch node, else the best.
///
/// `singles` and `pairs` are the candidates of [`pools::singles`] and [`pools::pairs`], or empty where a pool is not needed.
pub(crate) fn choose(field: &str, singles: &[Vec<u32>], pairs: &[Vec<u32>], n: usize) -> Result<Chosen, Error> {
    let mut pools: Vec<(&[String], &[Vec<u32>])> = pools::single_character_ranges()
        .into_iter()
        .filter_map(|range| Some((&pools::singles()[range.clone()], singles.get(range)?)))
        .collect();
    if !pairs.is_empty() {
        pools.push((pools::pairs(), pairs));
    }
    if n >= 2 {
        for &(codes, ids) in &pools {
            if !single_branch::reachable(&Trie::new(ids), n) {
                continue;
            }
            if let Some(best) = best_codes(ids, n)? {
                return Ok(chosen(codes, ids, &best));
            }
        }
    }
    let mut winner: Option<((Cost, usize), Chosen)> = None;
    for &(codes, ids) in &pools {
        let Some(best) = best_codes(ids, n)? else {
            continue;
        };
        // Codes of one pool have one length.
        let key = (best.cost, codes[0].len());
        if winner.as_ref().is_none_or(|(held, _)| key < *held) {
            winner = Some((key, chosen(codes, ids, &best)));
        }
    }
    winner.map(|(_, chosen)| chosen).ok_or_else(|| {
        Error::new(
            ErrorKind::NoCodebook,
            field,
            format!(
                "field {}: this tokenizer cannot tell {n} aliases apart in any pool; give fewer choices or use labels scoring",
                quoted(field)
            ),
        )
    })
}

fn chosen(codes: &[String], ids: &[Vec<u32>], best: &Selection) -> Chosen {
    Chosen {
        aliases: best.members.iter().map(|&at| codes[at].clone()).collect(),
        ids: best.members.iter().map(|&at| ids[at].clone()).collect(),
        branch_nodes: best.cost.branch_nodes,
    }
}

#[cfg(test)]
mod tests;
