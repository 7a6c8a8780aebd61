//! The same questions with their choices in another order, to measure and to undo what the order does.

use super::{Field, FieldKind, Schema};

impl Schema {
    /// The schema with every field's choices moved by ⌊step·n/of⌋ places.
    ///
    /// Booleans and scales keep their order unless `scales` says otherwise. Set constraints are left out: they are applied to
    /// the answers, whatever order led to them.
    ///
    /// ```
    /// use jevmlx_core::Schema;
    /// let schema = Schema::from_json(r#"{"team": {"choices": ["a", "b", "c"]}}"#).unwrap();
    /// assert_eq!(schema.rotated(1, 2, false).fields()[0].choices(), ["b", "c", "a"]);
    /// ```
    #[must_use]
    pub fn rotated(&self, step: usize, of: usize, scales: bool) -> Self {
        self.reordered(|field| {
            let n = field.choices.len();
            let keeps = (field.ordered || field.kind == FieldKind::Boolean) && !scales;
            let by = if keeps { 0 } else { step * n / of.max(1) };
            (0..n).map(|index| (index + by) % n).collect()
        })
    }

    /// The schema with every field's choices in code-point order: the same for all orders they are written in.
    #[must_use]
    pub fn canonical(&self) -> Self {
        self.reordered(|field| {
            let mut order: Vec<usize> = (0..field.choices.len()).collect();
            // UTF-8 sorts by code point.
            order.sort_by(|&a, &b| field.choices[a].cmp(&field.choices[b]));
            order
        })
    }

    fn reordered(&self, order: impl Fn(&Field) -> Vec<usize>) -> Self {
        let fields = self.fields.iter().map(|field| {
            let order = order(field);
            let moved = |texts: &[String]| order.iter().map(|&index| texts[index].clone()).collect();
            Field {
                choices: moved(&field.choices),
                glosses: moved(&field.glosses),
                // In another order it is a choice like any other.
                none_of_above: field.none_of_above && order.iter().enumerate().all(|(at, &index)| at == index),
                set_constraints: Vec::new(),
                ..field.clone()
            }
        });
        Self { fields: fields.collect() }
    }
}
