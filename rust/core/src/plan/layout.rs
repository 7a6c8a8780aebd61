//! Row layout: the tokens of every row as one forest, and where in it each candidate's decisions are read.

use std::collections::HashMap;

use super::Row;

/// Everything that follows the prompt, laid out for one forward pass.
///
/// The nodes are a trie over all rows: parents come before children and common beginnings are shared. Node `i` stands at
/// position `prompt length + depths[i]`; a parent of `-1` is the prompt's last token. Only tokens whose output is read, or
/// that lead to one, are nodes.
///
/// A branch node is a place where a candidate may continue with one of several tokens. Branch `b` is read off the output of
/// node `branch_nodes[b]` (`-1`: the prompt's last token) and allows `branch_tokens[branch_offsets[b]..branch_offsets[b + 1]]`.
/// Candidate `c` passes the entries `steps[step_offsets[c]..step_offsets[c + 1]]` of `branch_tokens`: its log score is the
/// sum of their log-probabilities, each within its branch. Row `r` has the candidates `row_offsets[r]..row_offsets[r + 1]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Token id of each node, shape (nodes,).
    pub tokens: Vec<i32>,
    /// Index of each node's parent, shape (nodes,).
    pub parents: Vec<i32>,
    /// Distance of each node from the prompt's end, shape (nodes,).
    pub depths: Vec<i32>,
    /// The node each branch is read off, shape (branches,).
    pub branch_nodes: Vec<i32>,
    /// Slices of `branch_tokens`, shape (branches + 1,).
    pub branch_offsets: Vec<i32>,
    /// Allowed next tokens, shape (allowed,).
    pub branch_tokens: Vec<i32>,
    /// Slices of candidates per row, shape (rows + 1,).
    pub row_offsets: Vec<i32>,
    /// Slices of `steps` per candidate, shape (candidates + 1,).
    pub step_offsets: Vec<i32>,
    /// Indices into `branch_tokens`, shape (steps,).
    pub steps: Vec<i32>,
}

/// Token ids come from a tokenizer's vocabulary and counts from a bounded schema; both fit.
fn int(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

impl Layout {
    pub(super) fn new<'a>(lead_in: &[u32], rows: impl Iterator<Item = &'a Row>) -> Self {
        let mut builder = Builder::default();
        for row in rows {
            builder.row(lead_in, row);
        }
        builder.finish()
    }
}

#[derive(Default)]
struct Builder {
    out: Layout,
    nodes: HashMap<(i32, u32), i32>,
}

impl Builder {
    /// The node after `tokens`, starting at `node`.
    fn chain(&mut self, node: i32, tokens: &[u32]) -> i32 {
        tokens.iter().fold(node, |parent, &token| {
            *self.nodes.entry((parent, token)).or_insert_with(|| {
                let depth = if parent < 0 { 0 } else { self.out.depths[parent as usize] + 1 };
                self.out.tokens.push(token as i32);
                self.out.parents.push(parent);
                self.out.depths.push(depth);
                int(self.out.tokens.len() - 1)
            })
        })
    }

    fn row(&mut self, lead_in: &[u32], row: &Row) {
        let forks = forks(&row.remainders);
        let mut first_entry: HashMap<&[u32], (usize, &[u32])> = HashMap::new();
        for (prefix, tokens) in &forks {
            let start = self.chain(-1, lead_in);
            let end = self.chain(start, &row.shared_ids);
            let node = self.chain(end, prefix);
            first_entry.insert(prefix, (self.out.branch_tokens.len(), tokens));
            self.out.branch_nodes.push(node);
            self.out.branch_offsets.push(int(self.out.branch_tokens.len()));
            self.out.branch_tokens.extend(tokens.iter().map(|&token| token as i32));
        }
        self.out.row_offsets.push(int(self.out.step_offsets.len()));
        for remainder in &row.remainders {
            self.out.step_offsets.push(int(self.out.steps.len()));
            for (at, token) in remainder.iter().enumerate() {
                let Some((first, tokens)) = first_entry.get(&remainder[..at]) else { continue };
                let offset = tokens.iter().position(|t| t == token).unwrap_or_default();
                self.out.steps.push(int(first + offset));
            }
        }
    }

    fn finish(mut self) -> Layout {
        self.out.branch_offsets.push(int(self.out.branch_tokens.len()));
        self.out.row_offsets.push(int(self.out.step_offsets.len()));
        self.out.step_offsets.push(int(self.out.steps.len()));
        self.out
    }
}

/// The branch nodes of a row: each inner prefix of the remainders with its several next tokens, in choice order.
fn forks(remainders: &[Vec<u32>]) -> Vec<(&[u32], Vec<u32>)> {
    let mut next: Vec<(&[u32], Vec<u32>)> = Vec::new();
    let mut index: HashMap<&[u32], usize> = HashMap::new();
    for remainder in remainders {
        for (at, &token) in remainder.iter().enumerate() {
            let slot = *index.entry(&remainder[..at]).or_insert_with(|| {
                next.push((&remainder[..at], Vec::new()));
                next.len() - 1
            });
            if !next[slot].1.contains(&token) {
                next[slot].1.push(token);
            }
        }
    }
    next.retain(|(_, tokens)| tokens.len() > 1);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(shared_ids: &[u32], remainders: &[&[u32]]) -> Row {
        Row { shared_ids: shared_ids.to_vec(), remainders: remainders.iter().map(|r| r.to_vec()).collect() }
    }

    #[test]
    fn rows_share_beginnings_and_leaves_are_no_nodes() {
        let rows = [row(&[1, 2], &[&[5, 9], &[6, 7, 9], &[6, 8]]), row(&[1, 3], &[&[4], &[5]])];
        let layout = Layout::new(&[0], rows.iter());
        // lead-in 0; row one: 1, 2, then the inner node 6; row two shares 0 and 1.
        assert_eq!(layout.tokens, [0, 1, 2, 6, 3]);
        assert_eq!(layout.parents, [-1, 0, 1, 2, 1]);
        assert_eq!(layout.depths, [0, 1, 2, 3, 2]);
        assert_eq!(layout.branch_nodes, [2, 3, 4]);
        assert_eq!(layout.branch_offsets, [0, 2, 4, 6]);
        assert_eq!(layout.branch_tokens, [5, 6, 7, 8, 4, 5]);
        assert_eq!(layout.row_offsets, [0, 3, 5]);
        assert_eq!(layout.step_offsets, [0, 1, 3, 5, 6, 7]);
        assert_eq!(layout.steps, [0, 1, 2, 1, 3, 4, 5]);
    }

    #[test]
    fn a_row_without_a_branch_needs_no_token() {
        let layout = Layout::new(&[0, 1], [row(&[2], &[&[]])].iter());
        assert_eq!((layout.tokens.len(), layout.branch_nodes.len()), (0, 0));
        assert_eq!((layout.row_offsets, layout.step_offsets), (vec![0, 1], vec![0, 0]));
    }

    #[test]
    fn an_empty_row_is_read_off_the_prompt() {
        let layout = Layout::new(&[], [row(&[], &[&[2], &[3]])].iter());
        assert_eq!(layout.branch_nodes, [-1]);
    }
}
