//! How many tokens a text takes.

/// No less than the tokens that `text` takes, for budgets that must hold.
pub fn ceiling(text: &str) -> usize {
    text.len().div_ceil(2)
}
