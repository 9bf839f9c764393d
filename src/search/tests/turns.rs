//! A turn is one hit, its context helps to find it, and the newest come first where nothing is asked.

use super::*;

impl Memory {
    fn turn(&self, number: i64, prompt: &str, title: &str, summary: &str) {
        self.prompt(number, prompt);
        let at = NOW + number;
        let sql =
            "INSERT INTO observations (uid, session_id, project, prompt_number, title, summary, created_at)
                   VALUES (hex(randomblob(16)), 's', 'p', ?1, ?2, ?3, ?4)";
        self.database.execute(sql, params![number, title, summary, at]).unwrap();
        let sql = "INSERT INTO session_summaries (uid, session_id, project, prompt_number, request, summary, created_at)
                   VALUES (hex(randomblob(16)), 's', 'p', ?1, ?2, ?3, ?4)";
        self.database.execute(sql, params![number, title, summary, at]).unwrap();
    }
}

#[test]
fn prompt_summary_and_note_of_a_turn_are_one_hit() {
    let mut memory = Memory::new();
    memory.turn(1, "tame the walrus", "Tame the walrus", "It sits now");
    memory.turn(2, "feed the walrus", "Feed it", "The walrus had herring");
    memory.index_some();
    let found = memory.ask(&request(&[("q", "walrus")]));
    assert_eq!(found.total, 2, "{:?}", found.hits);
    assert!(found.hits.iter().all(|hit| hit.kind != Kind::Prompt), "the answer stands for its turn");
    assert_eq!(memory.find_with(&[("q", "")]).len(), 2);
}

#[test]
fn the_prompt_that_is_being_answered_is_not_found() {
    let memory = Memory::new();
    memory.prompt(1, "where does the walrus sleep");
    memory.prompt(2, "does the walrus bite");
    let asked = |number| vec![("q", "walrus"), ("exclude_session", "s"), ("exclude_prompt", number)];
    assert_eq!(memory.find_with(&asked("2")), ["P1"]);
    assert!(memory.find_with(&[("q", "walrus"), ("exclude_session", "s")]).is_empty());
}

#[test]
fn a_row_is_found_by_its_neighbours_its_prompt_and_its_date() {
    let mut memory = Memory::new();
    memory.turn(1, "what does the walrus eat for breakfast", "Herring", "Twelve of them");
    memory.observe("Unrelated", "The fence is green");
    memory.index_some();
    assert_eq!(memory.find("walrus breakfast eat").len(), 1, "by the prompt of its turn");
    let hits = memory.find("herring twelve fence");
    assert_eq!(hits.len(), 2, "{hits:?}");
}

#[test]
fn a_deleted_row_leaves_the_context_of_its_neighbours() {
    let mut memory = Memory::new();
    memory.observe("One", "first");
    let secret = memory.observe("Two", "walrus herring breakfast");
    memory.observe("Three", "third");
    memory.index_some();
    assert_eq!(memory.find("walrus herring breakfast").len(), 3);
    memory.database.execute("DELETE FROM observations WHERE id = ?1", [secret]).unwrap();
    assert!(memory.find("walrus herring breakfast").is_empty());
    memory.assert_consistent();
}

#[test]
fn without_a_question_everything_comes_newest_first() {
    let memory = Memory::new();
    for number in 0..230 {
        // Ids and times run against each other.
        memory.observe_in("p", &format!("Step {number}"), &format!("text {number}"), NOW - number);
    }
    let mut seen = Vec::new();
    let mut offset = Some(0);
    while let Some(at) = offset {
        let found = memory.ask(&request(&[("limit", "100"), ("offset", &at.to_string())]));
        seen.extend(found.hits.iter().map(|hit| hit.id));
        offset =
            (at + found.hits.len() < found.total && !found.hits.is_empty()).then(|| at + found.hits.len());
    }
    assert_eq!(seen, (1..=230).collect::<Vec<_>>());
}
