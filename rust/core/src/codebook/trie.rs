//! A trie of candidates in which chains that decide nothing are one step.

/// A place where candidates end or part.
pub(super) struct Node {
    /// Tokens from the root.
    pub(super) depth: u32,
    /// The first candidate, in pool order, that ends here. Later ones conflict with it and are never better.
    pub(super) terminal: Option<usize>,
    /// What follows, by next token.
    pub(super) children: Vec<Node>,
}

/// The trie of a pool.
pub(super) struct Trie {
    pub(super) root: Node,
    /// Number of codes in the pool.
    pub(super) codes: usize,
}

impl Trie {
    pub(super) fn new(candidates: &[Vec<u32>]) -> Self {
        let lists: Vec<&[u32]> = candidates.iter().map(Vec::as_slice).collect();
        let shared = shared_length(&lists);
        let mut order: Vec<(u64, usize)> =
            lists.iter().enumerate().map(|(index, list)| (head(&list[shared..]), index)).collect();
        // Most candidates differ in the first two tokens after what all share: compare those as one number.
        order.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| lists[a.1][shared..].cmp(&lists[b.1][shared..])).then(a.1.cmp(&b.1))
        });
        let order: Vec<usize> = order.into_iter().map(|(_, index)| index).collect();
        let root = build(&lists, &order, shared);
        Self { root, codes: candidates.len() }
    }
}

fn shared_length(lists: &[&[u32]]) -> usize {
    let Some(first) = lists.first() else { return 0 };
    lists
        .iter()
        .fold(first.len(), |length, list| std::iter::zip(&first[..length], *list).take_while(|(a, b)| a == b).count())
}

/// The first two tokens as a number that sorts as they do; an ended list sorts first.
fn head(list: &[u32]) -> u64 {
    // One is added to tell "none" from token 0; the largest ids tie and are compared in full.
    let at = |index: usize| list.get(index).map_or(0, |&token| u64::from(token.saturating_add(1)));
    at(0) << 32 | at(1)
}

/// The node over the sorted candidates `order`, which agree on their first `depth` tokens.
fn build(lists: &[&[u32]], order: &[usize], mut depth: usize) -> Node {
    loop {
        let ended = order.iter().take_while(|&&index| lists[index].len() == depth).count();
        let rest = &order[ended..];
        let one_way = rest.first().is_none_or(|&a| rest.last().is_some_and(|&b| lists[a][depth] == lists[b][depth]));
        if ended == 0 && one_way && !rest.is_empty() {
            depth += 1;
            continue;
        }
        let children = rest
            .chunk_by(|&a, &b| lists[a][depth] == lists[b][depth])
            .map(|group| build(lists, group, depth + 1))
            .collect();
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        return Node { depth, terminal: order[..ended].first().copied(), children };
    }
}

impl Node {
    /// Whether a selection below this node can branch here.
    pub(super) fn branches(&self) -> bool {
        self.children.len() >= 2
    }

    /// The most candidates that can be selected below this node together.
    pub(super) fn capacity(&self) -> usize {
        let below: usize = self.children.iter().map(Node::capacity).sum();
        below.max(usize::from(self.terminal.is_some()))
    }

    /// Calls `visit` for this node and every one below it, parents first.
    pub(super) fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Node)) {
        visit(self);
        for child in &self.children {
            child.walk(visit);
        }
    }
}
