use serde_json::json;

use super::*;
use crate::compress::turn::TurnEvent;
use crate::store::learnings::Learning;

fn prompt(text: &str) -> Vec<LearningDraft> {
    from_turn(&Turn { prompt: Some(text.to_owned()), ..Turn::default() })
}

/// What is learnt from a prompt, with the confidence in tenths.
fn learnt(text: &str) -> Vec<String> {
    prompt(text).iter().map(|draft| format!("{:.0} {}", draft.confidence * 10.0, draft.content)).collect()
}

#[test]
fn corrections_rules_and_preferences_are_learnt() {
    for (said, expected) in [
        ("no, use pnpm", "6 Use pnpm"),
        ("No. Use pnpm.", "6 Use pnpm"),
        ("Nope - use `uv run` here", "6 Use `uv run` here"),
        ("no, we use tabs", "6 We use tabs"),
        ("That's wrong, use the Decimal type for money", "6 Use the Decimal type for money"),
        ("Always run `make lint` before committing.", "7 Always run `make lint` before committing"),
        ("please never edit generated files", "7 Never edit generated files"),
        ("Don't ever push to main", "7 Never push to main"),
        ("You should always add a test for a bug fix", "7 Always add a test for a bug fix"),
        ("we never commit lock files", "7 We never commit lock files"),
        ("From now on, answer in German", "7 Answer in German"),
        ("Before you push, always run the linter", "7 Before you push, always run the linter"),
        ("In tests, never use sleep", "7 In tests, never use sleep"),
        ("Commit messages should always be in English", "5 Commit messages should always be in English"),
        ("I prefer small commits", "6 I prefer small commits"),
        ("Use ripgrep instead of grep", "5 Use ripgrep instead of grep"),
        ("don't use unwrap outside tests", "5 Don't use unwrap outside tests"),
        ("stop adding comments to every line", "5 Stop adding comments to every line"),
        ("we use conventional commits", "5 We use conventional commits"),
        ("Remember that the staging database is read-only", "7 The staging database is read-only"),
        ("no, the config lives in config/app.toml", "4 The config lives in config/app.toml"),
        ("Fix the login.\n\n- never log passwords\n", "7 Never log passwords"),
        ("nein, nimm pnpm", "6 Nimm pnpm"),
        ("Verwende immer deutsche Fehlermeldungen", "7 Verwende immer deutsche Fehlermeldungen"),
        ("Bitte niemals auf main pushen", "7 Niemals auf main pushen"),
        ("Ab jetzt bitte kleine Commits machen", "7 Kleine Commits machen"),
        ("Nein, wir verwenden pytest statt unittest", "6 Wir verwenden pytest statt unittest"),
        ("不对，应该用 pnpm", "6 应该用 pnpm"),
        ("不要使用 any 类型", "5 不要使用 any 类型"),
        ("永远不要直接推送到 main 分支", "7 永远不要直接推送到 main 分支"),
        ("以后都用中文回答", "7 都用中文回答"),
        ("请始终使用 TypeScript 严格模式", "7 始终使用 TypeScript 严格模式"),
        ("用 vitest 而不是 jest", "5 用 vitest 而不是 jest"),
        ("いや、pnpmを使ってください", "6 pnpmを使ってください"),
        ("npmではなくpnpmを使って", "5 npmではなくpnpmを使って"),
        ("必ずテストを書いてください", "7 必ずテストを書いてください"),
        ("今後は日本語で回答してください", "7 日本語で回答してください"),
        ("絶対にmainに直接pushしないでください", "7 絶対にmainに直接pushしないでください"),
    ] {
        assert_eq!(learnt(said), [expected], "{said}");
    }
}

#[test]
fn what_only_sounds_like_a_rule_is_not_learnt() {
    for said in [
        "never mind",
        "Never mind, use the other approach",
        "nevermind",
        "The API always returns null",
        "it always returns null, fix it",
        "always returns null",
        "this never works on my machine",
        "Never seen this error before",
        "Never again!",
        "Always the same error",
        "we never got it to work",
        "Should we always use pnpm?",
        "why does it never retry?",
        "the function should never return null",
        "no, that's fine",
        "no need to use a cache",
        "no",
        "No, use the second one",
        "no, use it",
        "no, do that later",
        "don't worry about the tests",
        "don't commit yet",
        "Never do that again",
        "for now, don't use the cache",
        "use pnpm for this one, not npm, just this once",
        "don't use the network today",
        "Do you remember when it worked?",
        "remember when this worked",
        "Add a function that always returns null",
        "```\n// always use the cache\nnever run this\n```",
        "> always use tabs\n\nWhat do you think of this?",
        "Look at this:\n\n    always run as root",
        "if (x) { always.use(y); }",
        "error: never use this in production();",
        "<task-notification>\nAlways use the force\n</task-notification>",
        "/model always use opus",
        "Das geht immer noch nicht",
        "immer noch derselbe Fehler",
        "Die Funktion gibt immer null zurück",
        "Nie gesehen",
        "nimm das",
        "Nein, das passt",
        "总是报错",
        "这个接口总是返回 null",
        "不要紧",
        "别的方法呢",
        "永远不会成功",
        "记住了吗？",
        "这次不要使用缓存",
        "常にnullを返す",
        "必ず失敗する",
        "それを使ってください",
        "今回はキャッシュを使わないでください",
        "ボタンを追加してください",
        "toujours utiliser pnpm",
    ] {
        assert_eq!(learnt(said), Vec::<String>::new(), "{said}");
    }
}

#[test]
fn what_holds_everywhere_is_marked_so() {
    assert!(prompt("Always sign commits in all my projects")[0].everywhere);
    assert!(!prompt("Always sign commits")[0].everywhere);
}

#[test]
fn secrets_and_private_passages_are_not_learnt() {
    let drafts = prompt("Always use the token ghp_0123456789abcdefghijABCDEFGHIJ012345 for releases");
    assert!(!drafts[0].content.contains("ghp_0123"), "{drafts:?}");
    let draft = LearningDraft::new(Category::Gotcha, "a <private>b</private> c", 1.0);
    assert_eq!(cleaned(draft).unwrap().content, "a c");
    assert_eq!(cleaned(LearningDraft::new(Category::Gotcha, "<private>b", 1.0)), None);
}

#[test]
fn a_pasted_text_does_not_teach_more_than_a_few_things() {
    let rules: String =
        (0..500).map(|number| format!("Always use rule number {number} of the guide\n")).collect();
    assert!(prompt(&rules).len() <= MOST_OF_A_TURN);
}

fn bash(id: i64, command: &str, outcome: Result<&str, &str>) -> TurnEvent {
    let payload = match outcome {
        Ok(stdout) => json!({"tool_input": {"command": command}, "tool_response": {"stdout": stdout}}),
        Err(error) => json!({"tool_input": {"command": command}, "error": error}),
    };
    TurnEvent {
        id,
        tool_name: Some("Bash".into()),
        payload: payload.to_string(),
        failed: outcome.is_err(),
        ..TurnEvent::default()
    }
}

fn edit(id: i64) -> TurnEvent {
    let payload = json!({"tool_input": {"file_path": "/p/a.py", "old_string": "a", "new_string": "b"},
                         "tool_response": {"filePath": "/p/a.py", "oldString": "a", "newString": "b"}});
    TurnEvent { id, tool_name: Some("Edit".into()), payload: payload.to_string(), ..TurnEvent::default() }
}

fn of_events(events: Vec<TurnEvent>) -> Vec<LearningDraft> {
    from_turn(&Turn { events, ..Turn::default() })
}

#[test]
fn a_command_that_failed_until_it_was_changed_is_learnt() {
    let drafts = of_events(vec![
        bash(1, "python manage.py migrate", Err("Exit code 127\nbash: python: command not found")),
        bash(2, "ls", Ok("manage.py")),
        bash(3, "python3 manage.py migrate", Ok("Applied 3 migrations")),
    ]);
    assert_eq!(
        drafts[0].content,
        "`python3 manage.py migrate` works here; `python manage.py migrate` fails: bash: python: command not found"
    );
    assert_eq!((drafts[0].category, drafts[0].sources.as_slice()), (Category::Command, [1, 3].as_slice()));
}

#[test]
fn a_command_that_works_for_another_reason_teaches_nothing() {
    let missing =
        || bash(1, "python manage.py migrate", Err("Exit code 1\nModuleNotFoundError: No module named x"));
    let works = || bash(9, "python3 manage.py migrate", Ok("done"));
    assert_eq!(of_events(vec![missing(), edit(2), works()]), [], "the edit repaired it");
    let again = bash(10, "python manage.py migrate", Ok("done"));
    assert_eq!(of_events(vec![missing(), works(), again]), [], "it works as it was, too");
    assert_eq!(of_events(vec![missing(), bash(2, "git push", Ok(""))]), [], "something else");
    let narrowed = of_events(vec![
        bash(1, "cargo test", Err("error: test failed\ntest result: FAILED. 3 passed; 1 failed;")),
        bash(2, "cargo test other", Ok("test result: ok. 1 passed; 0 failed;")),
    ]);
    assert_eq!(narrowed, []);
    let code = of_events(vec![
        bash(1, "cargo build", Err("error[E0308]: mismatched types")),
        bash(2, "cargo build --lib", Ok("")),
    ]);
    assert!(code.iter().all(|draft| !draft.content.contains("fails")), "{code:?}");
}

#[test]
fn what_a_project_is_checked_with_is_noted_but_not_told_at_once() {
    let drafts = of_events(vec![
        bash(1, "make check 2>&1 | tail -5", Ok("all good")),
        bash(2, "cargo test", Ok("test result: ok. 3 passed; 0 failed;")),
        bash(3, "cargo test one", Ok("test result: ok. 1 passed; 0 failed;")),
    ]);
    let contents: Vec<_> = drafts.iter().map(|draft| draft.content.as_str()).collect();
    assert!(contents.contains(&"Run the tests with `cargo test`"), "{contents:?}");
    assert!(drafts.iter().all(|draft| draft.confidence < TOLD_FROM && !draft.content.contains("one")));
}

#[test]
fn the_same_is_recognised_in_other_words_and_another_thing_is_not() {
    for (one, other) in [
        ("Use pnpm", "Always use pnpm."),
        ("Use pnpm, not npm", "please use pnpm not npm"),
        ("Run the tests with `cargo nextest run`", "Run tests with cargo nextest run"),
        ("始终使用严格模式", "始终使用严格模式。"),
    ] {
        assert!(is_same(one, other), "{one} | {other}");
    }
    for (one, other) in [
        ("Use pnpm", "Use yarn"),
        ("Always use tabs", "Never use tabs"),
        ("The port is 8080", "The port is 9090"),
        ("Run the tests with `make test`", "Run the tests with `cargo test`"),
        ("", ""),
    ] {
        assert!(!is_same(one, other), "{one} | {other}");
    }
}

#[test]
fn the_opposite_is_recognised() {
    for (newer, older) in [
        ("Never use tabs", "Always use tabs"),
        ("Use npm", "Use pnpm, not npm"),
        ("Use npm instead of pnpm", "Use pnpm instead of npm"),
        ("Use yarn, not pnpm", "Use pnpm"),
        ("Don't use mocks", "Use mocks"),
        ("The dev server listens on port 4000", "The dev server listens on port 3000"),
        (
            "`npm test` works here; `pnpm test` fails",
            "`pnpm test` works here; `npm test` fails: missing script",
        ),
        ("Nutze pytest statt unittest", "Wir nutzen unittest"),
        ("不要使用 mocha", "始终使用 mocha"),
        ("mochaを使わないでください", "mochaを使ってください"),
    ] {
        assert!(contradicts(newer, older), "{newer} | {older}");
        assert!(!is_same(newer, older), "{newer} | {older}");
    }
    for (newer, older) in [
        ("Use pnpm", "Use pnpm"),
        ("Use pnpm", "Use vitest"),
        ("Never use mocks in integration tests", "Use mocks in unit tests"),
        ("Never commit to main", "Never push to main"),
        ("Lint with `make lint`", "Run the tests with `make test`"),
    ] {
        assert!(!contradicts(newer, older), "{newer} | {older}");
    }
}

fn known(id: i64, content: &str, is_active: bool, superseded_by: Option<i64>) -> Learning {
    Learning {
        id,
        uid: id.to_string(),
        project: Some("p".into()),
        category: Category::Convention,
        content: content.into(),
        confidence: 0.7,
        times_seen: 1,
        is_active,
        superseded_by,
        source_observation_id: None,
        created_at: 0,
        updated_at: 0,
    }
}

#[test]
fn what_is_known_decides_what_becomes_of_a_draft() {
    let all = [
        known(1, "Use pnpm, not npm", true, None),
        known(2, "Never log passwords", false, None),
        known(3, "Use tabs", false, Some(4)),
        known(4, "Use spaces, not tabs", true, None),
    ];
    let draft =
        |content: &str, confidence: f64| LearningDraft::new(Category::Convention, content, confidence);
    let told = |content: &str, confidence: f64| {
        weigh(&all, vec![draft(content, confidence)]).pop().map(|step| (step.seen, step.supersedes))
    };
    assert_eq!(told("Use pnpm, not npm", 0.6), Some((Some(1), vec![])), "seen again");
    assert_eq!(told("Use npm, not pnpm", 0.6), Some((None, vec![1])), "the newer takes its place");
    assert_eq!(told("Use npm, not pnpm", 0.4), Some((None, vec![])), "but not if it is a guess");
    assert_eq!(told("never log passwords", 0.9), None, "forgotten stays forgotten");
    let forgotten = [known(5, "Use pnpm, not npm", false, None)];
    assert!(weigh(&forgotten, vec![draft("Use pnpm", 0.6)]).is_empty(), "nor does half of it come back");
    assert_eq!(weigh(&forgotten, vec![draft("Use yarn, not pnpm", 0.6)]).len(), 1, "another thing is learnt");
    assert_eq!(
        told("Use tabs", 0.6),
        Some((Some(3), vec![4])),
        "what was superseded comes back when it is said again"
    );
    let named = LearningDraft { replaces: Some(1), ..draft("The package manager is yarn", 0.6) };
    assert_eq!(weigh(&all, vec![named])[0].supersedes, [1], "a model may say so");
    let by_hand = weigh_by_hand(&all, draft("Never log passwords", 1.0));
    assert_eq!(by_hand.seen, Some(2), "who writes it down wants it back");
}

#[test]
fn confidence_fades_by_the_day_and_what_was_written_down_does_not() {
    use crate::model::confidence_left;
    const DAY: i64 = 24 * 60 * 60_000;
    let after = |days: i64| (confidence_left(0.7, 0, days * DAY) * 1000.0).round() / 1000.0;
    assert_eq!([after(0), after(60), after(90), after(120), after(400)], [0.7, 0.7, 0.6, 0.5, 0.0]);
    assert_eq!(confidence_left(1.0, 0, 4000 * DAY), 1.0);
    assert_eq!(confidence_left(0.7, 10 * DAY, 0), 0.7, "a clock that was set back changes nothing");
}

#[test]
fn a_shorter_word_for_what_is_known_is_a_sighting_and_a_wider_one_is_not() {
    assert!(includes("Use pnpm, not npm", "Use pnpm") && includes("Use pnpm, not npm", "don't use npm"));
    assert!(!includes("Use tabs in Makefiles", "Use tabs") && !includes("Use pnpm", "Use pnpm, not npm"));
    assert!(!includes("Use pnpm, not npm", "Use npm"));
}

#[test]
fn a_model_restates_what_was_said_in_other_forms_of_its_words() {
    assert!(restates("Generated files must not be edited", "Never edit generated files"));
    assert!(restates("Package manager is pnpm; npm breaks the lock file", "Use pnpm, not npm"));
    assert!(!restates("pnpm needs Node 20", "Use pnpm"), "one word in common is not enough");
    assert!(!restates("Generated files live in gen/", "Never edit generated files"));
}
