//! Vetoed statements that are made again in other words (eval/vetoes.jsonl): how many are shown again, and how many others are
//! blocked by mistake.

use std::path::Path;

use anyhow::Result;
use claude_mem::search::embedding::{self, Embedder};
use claude_mem::search::restatement::{Vetoed, is_vetoed, nearest};
use claude_mem::store::corrections::vetoes::key;
use serde::Deserialize;

const TABLE: &str = include_str!("../../eval/vetoes.jsonl");

#[derive(Deserialize)]
struct Row {
    statement: String,
    again: Vec<String>,
    other: Vec<String>,
}

/// Prints the figures; those by meaning only with a model in this directory.
pub fn print(models: Option<&Path>) -> Result<()> {
    let rows: Vec<Row> = TABLE.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let again = || rows.iter().flat_map(|row| row.again.iter().map(move |text| (&row.statement, text)));
    let is_same = |(statement, text): &(&String, &String)| key(statement) == key(text);
    let exact = rows.iter().filter(|row| key(&row.statement.to_uppercase()) != key(&row.statement)).count();
    let by_words = again().filter(is_same).count();
    println!(
        "\nVetoes: {} statements, each made again in {} other ways",
        rows.len(),
        again().count() / rows.len()
    );
    println!(
        "shown again in the same words: {exact}; in other words, without a model: {}",
        again().count() - by_words
    );
    let Some(Ok(model)) = models.and_then(embedding::load) else {
        println!("no model: set CLAUDE_MEM_EVAL_MODELS for the figures by meaning");
        return Ok(());
    };
    let vetoes: Vec<Vetoed> =
        rows.iter().map(|row| Vetoed::new("", &row.statement, &model)).collect::<Result<_, _>>()?;
    let (mut shown, mut blocked) = (Vec::new(), Vec::new());
    let (mut same, mut different) = (Vec::new(), Vec::new());
    for row in &rows {
        for text in &row.again {
            same.push(nearest("", text, &vetoes, &model)?);
            if !is_vetoed("", text, &vetoes, &model)? {
                shown.push(text);
            }
        }
        for text in &row.other {
            different.push(nearest("", text, &vetoes, &model)?);
            if is_vetoed("", text, &vetoes, &model)? {
                blocked.push(text);
            }
        }
    }
    println!("with {}: shown again in other words {} of {}", model.name(), shown.len(), same.len());
    println!("other statements blocked by mistake: {} of {}", blocked.len(), different.len());
    for (name, mut values) in [("restatements", same), ("others", different)] {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize];
        println!(
            "likeness of {name}: {:.3} {:.3} {:.3} {:.3} {:.3} (5, 10, 50, 90, 95 %)",
            at(0.05),
            at(0.1),
            at(0.5),
            at(0.9),
            at(0.95)
        );
    }
    shown.iter().for_each(|text| println!("- shown again: {text}"));
    blocked.iter().for_each(|text| println!("- blocked: {text}"));
    Ok(())
}
