//! Facts that the next session needs: thirty sessions of three projects (eval/context/sessions.jsonl), twelve moments
//! (questions.jsonl), and for each the facts that a colleague would mention. The facts were written down from the sessions,
//! before the first context was built.

use serde::Deserialize;

use super::in_session::{RecallQuery, Trigger};
use super::tests::{History, NOW, Seen};
use super::*;
use crate::config::Config;

#[derive(Deserialize)]
struct ScenarioSession {
    project: String,
    day: f64,
    branch: String,
    request: String,
    summary: String,
    next: String,
    observations: Vec<Observation>,
    learnings: Vec<ScenarioLearning>,
    code: Vec<Code>,
}

#[derive(Deserialize)]
struct Observation {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    summary: String,
    files: Vec<String>,
}

#[derive(Deserialize)]
struct ScenarioLearning {
    category: String,
    content: String,
    confidence: f64,
}

#[derive(Deserialize)]
struct Code {
    file: String,
    name: String,
    signature: String,
    change: String,
}

/// A moment at which a session starts. A fact counts if one of its wordings is there at the start or with the first prompt.
#[derive(Deserialize)]
struct ScenarioStart {
    what: String,
    project: String,
    day: f64,
    branch: String,
    changed: Vec<String>,
    commits: Vec<String>,
    /// The first prompt, which only the worker answers.
    prompt: String,
    facts: Vec<String>,
}

const SESSIONS: &str = include_str!("../../eval/context/sessions.jsonl");
const QUESTIONS: &str = include_str!("../../eval/context/questions.jsonl");

fn rows<'a, T: Deserialize<'a>>(text: &'a str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn at(day: f64) -> Millis {
    NOW - 40 * 86_400_000 + (day * 86_400_000.0) as Millis
}

/// All that happened before a day.
fn history(until: f64) -> History {
    let history = History::new();
    for (number, session) in
        rows::<ScenarioSession>(SESSIONS).iter().filter(|session| session.day < until).enumerate()
    {
        let id = format!("s{number:02}");
        history.session(&id, &format!("/work/{}", session.project), &session.branch, at(session.day));
        history.prompt(&id, &session.request);
        history.summary(&id, &session.request, &session.summary, &session.next);
        for Observation { kind, title, summary, files } in &session.observations {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            history.observe(&id, Seen { kind, title, summary, files: &files });
        }
        for learning in &session.learnings {
            history.learn(Some(&session.project), &learning.category, &learning.content, learning.confidence);
        }
        for Code { file, name, signature, change } in &session.code {
            history.change(&id, file, name, signature, change);
        }
    }
    history
}

/// The facts that are in the context, the facts that are not, and the context.
fn ask(start: &ScenarioStart, is_worker: bool) -> (usize, Vec<String>, String) {
    let history = history(start.day);
    let settings = Config::default().search;
    let now = at(start.day);
    let recall = |question: &RelevanceQuery| {
        relevance::SearchRelevance::new(&history.database, &settings, &start.project, now).find(question)
    };
    let path = format!("/work/{}", start.project);
    let mut repo_state = RepoState { branch: Some(start.branch.clone()), ..RepoState::default() };
    if is_worker {
        repo_state.changed_files.clone_from(&start.changed);
        repo_state.commits.clone_from(&start.commits);
    }
    let context = build(
        &history.database,
        &ContextRequest {
            project: &start.project,
            project_path: &path,
            root: &path,
            session_id: "now",
            repo_state,
            recall: is_worker.then_some(&recall as Recall<'_>),
            now,
            budget: 2000,
            ..ContextRequest::default()
        },
    );
    assert!(context.tokens <= 2000);
    let told = if is_worker { with_prompt(&history, start, &settings, now) } else { String::new() };
    let lower = format!("{}\n{told}", context.text).to_lowercase();
    let (known, missed): (Vec<&String>, Vec<&String>) =
        start.facts.iter().partition(|fact| fact.split('|').any(|wording| lower.contains(wording)));
    let missed = missed.into_iter().map(|fact| format!("{}: {fact}", start.what)).collect();
    (known.len(), missed, context.text)
}

/// The memories that come with the first prompt.
fn with_prompt(
    history: &History,
    start: &ScenarioStart,
    settings: &crate::config::SearchSettings,
    now: Millis,
) -> String {
    let session = SessionId("now".into());
    let query = RecallQuery {
        project: &start.project,
        project_path: &format!("/work/{}", start.project),
        session: &session,
        settings,
        now,
        budget: 400,
        code: CodeCheck::default(),
    };
    let trigger = Trigger::Prompt { text: start.prompt.clone() };
    in_session::build(&history.database, &query, &trigger, &Shown::default()).unwrap().text
}

/// The share of facts that the session is given, and the missing ones.
fn share(is_worker: bool) -> (f64, Vec<String>) {
    let starts: Vec<ScenarioStart> = rows(QUESTIONS);
    let all: usize = starts.iter().map(|start| start.facts.len()).sum();
    let mut known = 0;
    let mut missed = Vec::new();
    for start in &starts {
        let (count, missing, _) = ask(start, is_worker);
        known += count;
        missed.extend(missing);
    }
    (known as f64 / all as f64, missed)
}

#[test]
fn the_next_session_knows_nine_facts_of_ten() {
    let (worker, missed) = share(true);
    let (hook, missed_by_hook) = share(false);
    assert!(worker >= 0.9, "{worker:.3}; missed: {missed:#?}");
    // Without search and git it is less, and still most of it.
    assert!(hook >= 0.8, "{hook:.3}; missed: {missed_by_hook:#?}");
    let report = format!(
        "worker: {worker:.3}\n{}\n\nhook alone: {hook:.3}\n{}",
        missed.join("\n"),
        missed_by_hook.join("\n")
    );
    insta::assert_snapshot!("what_is_missed", report);
}

#[test]
fn one_of_its_contexts() {
    let starts: Vec<ScenarioStart> = rows(QUESTIONS);
    insta::assert_snapshot!("back_after_a_week", ask(&starts[1], true).2);
}
