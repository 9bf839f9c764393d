//! Costs: the price of a call, its maximum, and the decision whether it may be made.
//!
//! Pure functions. The store records the spending.

use std::collections::BTreeMap;

use super::Usage;
use crate::config::Price;

/// Key of the price for models without their own line.
const DEFAULT: &str = "default";
/// Key of the price for such models on this machine.
const LOOPBACK: &str = "loopback";
/// The price if not even a default is set.
const NO_DEFAULT: Price = Price { input: 10.0, output: 50.0 };

/// Returns the price of a model: its own line in `[prices]`, else that of the longest name it is a
/// version of, else `loopback` if it runs on this machine, else `default`.
pub fn price_of(prices: &BTreeMap<String, Price>, model: &str, on_this_machine: bool) -> Price {
    let fallback = if on_this_machine { LOOPBACK } else { DEFAULT };
    let wanted = plain_name(model);
    prices
        .iter()
        .filter(|(name, _)| {
            *name != DEFAULT && *name != LOOPBACK && is_version_of(&wanted, &plain_name(name))
        })
        .max_by_key(|(name, _)| name.len())
        .map(|(_, price)| *price)
        .or_else(|| prices.get(fallback).copied())
        .unwrap_or(NO_DEFAULT)
}

/// Normalises a model name and drops the vendor: `anthropic/claude-haiku-4.5` is
/// `claude-haiku-4-5`.
fn plain_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.to_ascii_lowercase().replace('.', "-")
}

fn is_version_of(model: &str, name: &str) -> bool {
    model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':', '[']))
}

/// Returns the cost of these tokens in US dollars.
pub fn cost(price: Price, usage: &Usage) -> f64 {
    (usage.tokens_in as f64 * price.input + usage.tokens_out as f64 * price.output) / 1_000_000.0
}

/// Upper bound of the tokens in a text of this size: code has about 3 bytes per token, Chinese 2 to
/// 3, random text 2.
pub fn most_tokens(bytes: usize) -> u64 {
    bytes.div_ceil(2) as u64
}

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BudgetDecision {
    /// It stays below the ceiling, whatever the response.
    Allowed,
    /// It might exceed the ceiling.
    OverCeiling {
        /// Cost of the day so far.
        spent: f64,
        /// Maximum cost of this call.
        at_most: f64,
        /// The ceiling.
        ceiling: f64,
    },
}

/// Decides about a call that costs `at_most` on a day that has cost `spent`: finished calls, and
/// running ones at their maximum.
pub fn decide(spent: f64, at_most: f64, ceiling: f64) -> BudgetDecision {
    // Sums of many small amounts have rounding errors: tolerate a billionth of a dollar.
    if spent + at_most <= ceiling + 1e-9 {
        BudgetDecision::Allowed
    } else {
        BudgetDecision::OverCeiling { spent, at_most, ceiling }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn price(model: &str, on_this_machine: bool) -> (f64, f64) {
        let price = price_of(&Config::default().prices, model, on_this_machine);
        (price.input, price.output)
    }

    #[test]
    fn a_model_version_has_the_price_of_its_base_name() {
        let table = [
            ("claude-haiku-4-5-20251001", (1.0, 5.0)),
            ("claude-haiku-4-5", (1.0, 5.0)),
            ("anthropic/claude-haiku-4.5", (1.0, 5.0)),
            ("anthropic/claude-haiku-5.5", (0.1, 0.5)),
            ("claude-sonnet-4-5@20250929", (3.0, 15.0)),
            ("claude-sonnet-4-6", (3.0, 15.0)),
            ("claude-sonnet-5-5", (2.0, 10.0)),
            ("claude-opus-4-1-20250805", (15.0, 75.0)),
            ("claude-opus-4-20250514", (15.0, 75.0)),
            ("claude-opus-4-5-20251101", (5.0, 25.0)),
            ("claude-opus-5", (5.0, 25.0)),
            ("claude-opus-5-5", (4.0, 20.0)),
            ("claude-fable-5-1", (10.0, 50.0)),
            ("sonnet[1m]", (3.0, 15.0)),
        ];
        for (model, expected) in table {
            assert_eq!(price(model, false), expected, "{model}");
        }
    }

    #[test]
    fn an_unknown_model_is_expensive_unless_local() {
        assert_eq!(price("gpt-5-mini", false), (10.0, 50.0));
        assert_eq!(price("claude-haiku-4-50", false), (10.0, 50.0), "a longer number is another model");
        assert_eq!(price("qwen3:8b", true), (0.0, 0.0));
        assert_eq!(price("claude-haiku-4-5", true), (1.0, 5.0), "a proxy on this machine is not free");
        assert_eq!(price("default", false), (10.0, 50.0));
        assert_eq!(price_of(&BTreeMap::new(), "x", true), NO_DEFAULT);
    }

    #[test]
    fn cost_is_tokens_times_price() {
        let usage = Usage { tokens_in: 2_000, tokens_out: 600, cost_usd: None };
        let price = price_of(&Config::default().prices, "claude-haiku-4-5", false);
        assert!((cost(price, &usage) - 0.005).abs() < 1e-12);
    }

    #[test]
    fn the_ceiling_holds_for_the_most_expensive_response() {
        assert_eq!(decide(0.0, 0.05, 1.0), BudgetDecision::Allowed);
        assert_eq!(decide(0.95, 0.05, 1.0), BudgetDecision::Allowed);
        assert!(matches!(decide(0.96, 0.05, 1.0), BudgetDecision::OverCeiling { .. }));
        assert_eq!(decide(0.0, 0.0, 0.0), BudgetDecision::Allowed, "a free call needs no budget");
        assert!(matches!(decide(0.0, 0.001, 0.0), BudgetDecision::OverCeiling { .. }));
    }
}
