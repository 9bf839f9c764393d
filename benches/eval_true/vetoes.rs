//! Vetoed statements that are made again in other words (eval/vetoes.jsonl): how many are shown again, and how many others are
//! blocked by mistake. The rule was chosen on one part of the table; no statement of the other part was looked at.

use std::path::Path;

use anyhow::Result;
use claude_mem::search::embedding::{self, Bert};
use claude_mem::search::restatement::{Candidate, Vetoed, is_vetoed};
use claude_mem::store::corrections::vetoes::key;
use serde::Deserialize;

const TABLE: &str = include_str!("../../eval/vetoes.jsonl");

#[derive(Deserialize)]
struct Row {
    part: String,
    statement: String,
    again: Vec<String>,
    other: Vec<String>,
}

/// Prints the figures; those by meaning only with a model in this directory.
pub fn print(models: Option<&Path>) -> Result<()> {
    let rows: Vec<Row> = TABLE.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let exact = rows.iter().filter(|row| key(&row.statement.to_uppercase()) != key(&row.statement)).count();
    println!("\nVetoes: {} statements; shown again in the same words: {exact}", rows.len());
    compare(&rows, "without a model", None)?;
    match models.and_then(embedding::load) {
        Some(Ok(model)) => compare(&rows, model.name(), Some(&model)),
        _ => {
            println!("no model: set CLAUDE_MEM_EVAL_MODELS for the figures by meaning");
            Ok(())
        }
    }
}

/// Compares every statement with the veto of its row: that of another row may rightly block it.
fn compare(rows: &[Row], name: &str, model: Option<&Bert>) -> Result<()> {
    for part in ["chosen on", "unseen"] {
        let (mut shown, mut mistaken, mut again, mut other) = (Vec::new(), Vec::new(), 0, 0);
        for row in rows.iter().filter(|row| row.part == part) {
            let veto = [Vetoed::new("", 1, &row.statement, model)?];
            let is_blocked =
                |text: &str| is_vetoed(Candidate { project: "", text, restored_at: None }, &veto, model);
            (again, other) = (again + row.again.len(), other + row.other.len());
            for text in &row.again {
                if !is_blocked(text)? {
                    shown.push(text);
                }
            }
            for text in &row.other {
                if is_blocked(text)? {
                    mistaken.push(text);
                }
            }
        }
        println!(
            "{name}, {part}: shown again in other words {} of {again}, others blocked by mistake {} of {other}",
            shown.len(),
            mistaken.len()
        );
        if part != "unseen" {
            shown.iter().for_each(|text| println!("- shown again: {text}"));
            mistaken.iter().for_each(|text| println!("- blocked: {text}"));
        }
    }
    Ok(())
}
