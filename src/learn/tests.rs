use super::*;
use crate::compress::parse::Learnt;
use crate::store::memory::learnings::Learning;
use crate::store::memory::sightings::SightingKind;
use crate::tools::{Exit, Outcome};

/// The learnings of a prompt, with their confidence in tenths.
fn learnt(prompt: &str) -> Vec<String> {
    from_prompt(prompt)
        .iter()
        .map(|draft| format!("{:.0} {}", draft.confidence * 10.0, draft.content))
        .collect()
}

#[test]
fn stated_rules_are_learnt() {
    for (prompt, expected) in [
        ("Always run `make lint` before committing.", "7 Always run `make lint` before committing"),
        ("please never edit generated files", "7 Never edit generated files"),
        ("Don't ever push to main", "7 Don't ever push to main"),
        ("Never use moment, use date-fns", "7 Never use moment, use date-fns"),
        ("Always npm, never pnpm", "7 Always npm, never pnpm"),
        ("**NEVER** commit secrets!", "7 NEVER commit secrets"),
        ("Never claim success without running the tests", "7 Never claim success without running the tests"),
        ("From now on, always escalate failed deployments", "7 Always escalate failed deployments"),
        ("always give me the short version first", "7 Always give me the short version first"),
        (
            "We decided to use Postgres because SQLite locks",
            "6 We decided to use Postgres because SQLite locks",
        ),
        ("You should always add a test for a bug fix", "7 You should always add a test for a bug fix"),
        ("Use tabs from now on", "7 Use tabs"),
        (
            "Can you always run the formatter before committing?",
            "7 Always run the formatter before committing",
        ),
        ("Update the docs whenever you change the API", "7 Update the docs whenever you change the API"),
        ("Don't add yourself as co-author to commits", "6 Don't add yourself as co-author to commits"),
        ("No emojis in commit messages", "6 No emojis in commit messages"),
        ("Don't rebuild the docs on every change", "6 Don't rebuild the docs on every change"),
        (
            "Don't indent nested lists with tabs as that breaks the renderer",
            "6 Don't indent nested lists with tabs as that breaks the renderer",
        ),
        ("Fix the login, and please never log passwords", "7 Never log passwords"),
        ("Fix the test, do not push directly to main", "6 Do not push directly to main"),
        ("Default exports are not allowed", "7 Default exports are not allowed"),
        (
            "Under no circumstances touch the production database",
            "7 Under no circumstances touch the production database",
        ),
        ("Tests should not depend on each other", "7 Tests should not depend on each other"),
        ("Ask before pushing to the remote", "6 Ask before pushing to the remote"),
        ("Our convention is one class per file", "6 Our convention is one class per file"),
        ("use bun to run the tests", "6 Use bun to run the tests"),
        ("we never commit lock files", "7 We never commit lock files"),
        ("From now on, answer in German", "7 Answer in German"),
        ("Going forward, the changelog is written by hand", "7 The changelog is written by hand"),
        ("Make sure to always sign commits", "7 Always sign commits"),
        ("Before you push, always run the linter", "7 Before you push, always run the linter"),
        ("In tests, never use sleep", "7 In tests, never use sleep"),
        ("Run the type checker before every commit", "7 Run the type checker before every commit"),
        ("Tests must not hit the network", "7 Tests must not hit the network"),
        ("every migration must have a rollback", "7 Every migration must have a rollback"),
        ("Commit messages should always be in English", "7 Commit messages should always be in English"),
        ("Remember that the staging database is read-only", "7 The staging database is read-only"),
        ("Fix the login.\n\n- never log passwords\n", "7 Never log passwords"),
        ("We don't use default exports here", "6 We don't use default exports here"),
        ("don’t use unwrap outside tests", "6 Don't use unwrap outside tests"),
        ("Do not push directly to main", "6 Do not push directly to main"),
        ("Don't run migrations unless I ask", "6 Don't run migrations unless I ask"),
        ("Only commit when I ask", "6 Only commit when I ask"),
        ("stop adding comments to every line", "6 Stop adding comments to every line"),
        ("we use conventional commits", "6 We use conventional commits"),
        ("I prefer small commits", "6 I prefer small commits"),
        ("Use ripgrep instead of grep", "6 Use ripgrep instead of grep"),
        ("no, use pnpm", "6 Use pnpm"),
        ("No. Use pnpm.", "6 Use pnpm"),
        ("nein, nimm pnpm", "6 Nimm pnpm"),
        ("Verwende immer deutsche Fehlermeldungen", "7 Verwende immer deutsche Fehlermeldungen"),
        ("Bitte niemals auf main pushen", "7 Niemals auf main pushen"),
        ("Ab jetzt bitte kleine Commits machen", "7 Kleine Commits machen"),
        ("Schreib in Zukunft kürzere Commits", "7 Schreib in Zukunft kürzere Commits"),
        ("Tests dürfen nicht ins Netz gehen", "7 Tests dürfen nicht ins Netz gehen"),
        ("Verwende keine globalen Variablen", "6 Verwende keine globalen Variablen"),
        ("Nein, wir verwenden pytest statt unittest", "6 Wir verwenden pytest statt unittest"),
        ("不对，应该用 pnpm", "6 应该用 pnpm"),
        ("不要使用 any 类型", "6 不要使用 any 类型"),
        ("永远不要直接推送到 main 分支", "7 永远不要直接推送到 main 分支"),
        ("以后都用中文回答", "7 都用中文回答"),
        ("请始终使用 TypeScript 严格模式", "7 始终使用 TypeScript 严格模式"),
        ("你以后不要修改生成的文件", "7 不要修改生成的文件"),
        ("提交信息必须用英文", "7 提交信息必须用英文"),
        ("测试不能访问网络", "7 测试不能访问网络"),
        ("用 vitest 而不是 jest", "6 用 vitest 而不是 jest"),
        ("いや、pnpmを使ってください", "6 pnpmを使ってください"),
        ("npmではなくpnpmを使って", "6 npmではなくpnpmを使って"),
        ("必ずテストを書いてください", "7 必ずテストを書いてください"),
        ("今後は日本語で回答してください", "7 日本語で回答してください"),
        ("絶対にmainに直接pushしないでください", "7 絶対にmainに直接pushしないでください"),
        ("テストで外部APIを呼んではいけません", "7 テストで外部APIを呼んではいけません"),
    ] {
        assert_eq!(learnt(prompt), [expected], "{prompt}");
    }
}

#[test]
fn a_rule_keeps_its_reason() {
    for (prompt, expected) in [
        ("We use pnpm because npm breaks the lock file", "We use pnpm because npm breaks the lock file"),
        ("Never edit schema.sql. It is generated.", "Never edit schema.sql: it is generated"),
        (
            "Always pin versions. Otherwise CI fails at random.",
            "Always pin versions; otherwise CI fails at random",
        ),
        ("Never mock the clock. Because it hides races.", "Never mock the clock because it hides races"),
        ("Never edit schema.sql. Now fix the login.", "Never edit schema.sql"),
        ("Never edit schema.sql.\nIt is still broken.", "Never edit schema.sql"),
        ("Niemals npm verwenden. Sonst bricht der Build.", "Niemals npm verwenden; sonst bricht der Build"),
        ("不要使用 npm，因为会破坏锁文件", "不要使用 npm，因为会破坏锁文件"),
    ] {
        let contents: Vec<String> = from_prompt(prompt).into_iter().map(|draft| draft.content).collect();
        assert_eq!(contents, [expected], "{prompt}");
    }
}

#[test]
fn other_sentences_are_not_learnt() {
    for prompt in [
        // Bugs and behaviour.
        "The API always returns null",
        "it always returns null, fix it",
        "always returns null",
        "this never works on my machine",
        "Never seen this error before",
        "Always the same error",
        "we never got it to work",
        "we always return an empty list here",
        "you never listen",
        "tests always fail on Windows",
        "errors never reach the log",
        "never happens on Linux",
        "we never check the return value",
        "never returns errors, always falls back",
        "no errors in tests",
        "no changes in code",
        "we only use the ids for storage",
        "never once did the build pass",
        "never in my life",
        "we don't have a cache anymore",
        "we only create the index if the file is new",
        "we use the old parser for that, but it fails",
        // Features.
        "Always show the header on top",
        "always select the first tab",
        "the function should never return null",
        "Users must be able to reset their password",
        "The page must load in a second",
        "Buttons should be blue",
        "use blue instead of green",
        "Use cards rather than a table",
        "Use `total` instead of `sum` in the report",
        "Add a function that always returns null",
        "make sure the dialog covers the whole page",
        "all tests must pass",
        // Questions and thoughts.
        "Should we always use pnpm?",
        "Can you check that it always returns a list?",
        "can you use blue?",
        "do we support dark mode in the future",
        "why does it never retry?",
        "I think we should always use UTC",
        "maybe never use the cache",
        "we never cache this, right?",
        "Do you remember when it worked?",
        "remember when this worked",
        // Single tasks.
        "never mind",
        "Never mind, use the other approach",
        "no, that's fine",
        "no need to use a cache",
        "No, use the second one",
        "no, use it",
        "no, use blue",
        "don't worry about the tests",
        "don't commit yet",
        "don't commit because I want to look at it first",
        "don't change the parser because we rewrite it",
        "you shouldn't need a flag since it is the default",
        "don't worry about warnings because they are old",
        "Add a retry and always log the error",
        "load the file and never use the default",
        "don't commit",
        "don't change the tests for now",
        "don't change anything, just explain",
        "only do step 1",
        "Run `make test` to see that the tests pass",
        "option to hide the banner in the future",
        "only fix the first one",
        "only run the unit tests",
        "Never do that again",
        "don't use the network today",
        "don't use it",
        "don't add tests",
        "Never call this function",
        "always use the new name in this file",
        "use pnpm for this one, not npm, just this once",
        "I prefer the second option",
        // Pasted text.
        "Implement the following plan:\n\nAlways use the cache.\nNever run the tests twice.",
        "# Conventions\n\nAlways use tabs.",
        "Look:\n\n## Rules\n- Never use any",
        "```\n// always use the cache\nnever run this\n```",
        "> always use tabs\n\nLook at that",
        "Look at this:\n\n    always run as root",
        "if (x) { always.use(y); }",
        "error: never use this in production",
        "Warning: Always use keys in lists",
        "12:04:11 worker never use stale handles",
        "main.rs:12: never use unwrap here",
        "[info] always run doctor first",
        "\"Always use tabs\" is written in the guide",
        "the log has a line of text that goes on for a long time and which says\nnever use the cache twice",
        "<task-notification>\nAlways use the force\n</task-notification>",
        "fix it\n<system-reminder>\nAlways use the force\n</system-reminder>",
        "[Request interrupted by user] always use tabs",
        "Base directory for this skill: /s\n\nAlways use tabs",
        "You are a reviewer. Always check types. Never approve code without tests.",
        "/model always use opus",
        // Other languages.
        "Das geht immer noch nicht",
        "immer noch derselbe Fehler",
        "Die Funktion gibt immer null zurück",
        "Nie gesehen",
        "nimm das",
        "Nein, das passt",
        "Bitte jetzt nie wieder anfassen",
        "总是报错",
        "这个接口总是返回 null",
        "不要紧",
        "别的方法呢",
        "永远不会成功",
        "记住了吗？",
        "这次不要使用缓存",
        "现在不要提交",
        "常にnullを返す",
        "必ず失敗する",
        "それを使ってください",
        "今回はキャッシュを使わないでください",
        "ボタンを追加してください",
        "toujours utiliser pnpm",
    ] {
        assert_eq!(learnt(prompt), Vec::<String>::new(), "{prompt}");
    }
}

#[test]
fn everywhere_needs_the_users_words() {
    let everywhere = |prompt: &str| from_prompt(prompt)[0].everywhere;
    assert!(everywhere("Always sign commits in all my projects"));
    assert!(everywhere("Verwende immer Tabs in allen Projekten"));
    assert!(!everywhere("Always sign commits") && !everywhere("Always use tabs everywhere"));
}

#[test]
fn secrets_are_not_learnt() {
    let drafts = from_prompt("Always use the token ghp_0123456789abcdefghijABCDEFGHIJ012345 for releases");
    assert!(!drafts[0].content.contains("ghp_0123"), "{drafts:?}");
    let draft = LearningDraft::new(Category::Gotcha, "a <private>b</private> c", 1.0);
    assert_eq!(cleaned(draft).unwrap().content, "a c");
    assert_eq!(cleaned(LearningDraft::new(Category::Gotcha, "<private>b", 1.0)), None);
}

#[test]
fn one_prompt_teaches_a_limited_number() {
    let rules: String =
        (0..500).map(|number| format!("Always use rule number {number} of the guide\n")).collect();
    assert_eq!(from_prompt(&rules).len(), MOST_PER_TURN);
}

const SUCCEEDED: Outcome = Outcome::Certain(Exit::Success);
const FAILED: Outcome = Outcome::Certain(Exit::Failure);
const UNKNOWN: Outcome = Outcome::Unknown;

fn ran(event: i64, line: &str, purpose: Option<CheckKind>, outcome: Outcome) -> TurnStep {
    let signature = (outcome == FAILED).then(|| "error: no such subcommand".to_owned());
    TurnStep::Ran(Run { event, line: line.into(), purpose, outcome, signature })
}

fn subjects(activities: &[TurnStep]) -> Vec<String> {
    sightings(activities).into_iter().map(|sighting| sighting.subject).collect()
}

#[test]
fn checks_are_normalised() {
    for (line, expected) in [
        ("cargo test", "cargo test"),
        ("cd web && pnpm --filter app test 2>&1 | tail -20", "pnpm --filter app test"),
        ("timeout 300 uv run pytest -q", "uv run pytest -q"),
        ("timeout -k 5 2m just test > /tmp/out.txt; echo $?", "just test"),
        ("PYTHONPATH=src python -m pytest", "PYTHONPATH=src python -m pytest"),
        ("source .venv/bin/activate && pytest", "source .venv/bin/activate && pytest"),
        ("go test ./... -run 'Fast|Slow'", "go test ./... -run 'Fast|Slow'"),
    ] {
        let found = subjects(&[ran(1, line, Some(CheckKind::Test), UNKNOWN)]);
        assert_eq!(found, [format!("Run the tests with `{expected}`")], "{line}");
    }
    for line in
        ["cargo test --help", "jest --listTests", "make -h", "cargo test || true; make", "cat <<E\nx\nE"]
    {
        assert_eq!(subjects(&[ran(1, line, Some(CheckKind::Test), SUCCEEDED)]), [""; 0], "{line}");
    }
    let failed = ran(1, "cargo test", Some(CheckKind::Test), FAILED);
    assert_eq!(subjects(&[failed, ran(2, "git status", None, SUCCEEDED)]), [""; 0]);
    let certain = |outcome| sightings(&[ran(1, "make", Some(CheckKind::Build), outcome)])[0].is_certain;
    assert!(certain(SUCCEEDED) && !certain(UNKNOWN));
}

#[test]
fn repairs_need_a_certain_success() {
    let fails = || ran(1, "rtk bun test", None, FAILED);
    let works = |outcome| ran(3, "bun test", None, outcome);
    let look = ran(2, "git diff --stat | cat", None, UNKNOWN);
    let found = sightings(&[fails(), look, works(SUCCEEDED)]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].kind, found[0].sources.as_slice()), (SightingKind::Repair, [1, 3].as_slice()));
    assert_eq!(found[0].subject, "`rtk bun test` fails with \"error: no such subcommand\": run `bun test`");
    let starts = ran(2, "docker compose up -d", None, SUCCEEDED);
    let again = ran(3, "rtk bun test", None, SUCCEEDED);
    let expected = "`rtk bun test` fails with \"error: no such subcommand\": run `docker compose up -d`";
    assert_eq!(subjects(&[fails(), starts.clone(), again.clone()]), [expected]);
    for activities in [
        vec![fails(), TurnStep::Edit, works(SUCCEEDED)],
        vec![fails(), works(UNKNOWN)],
        vec![fails(), again],
        vec![fails(), starts],
        vec![fails(), ran(2, "rtk bun test one.test.ts", None, SUCCEEDED)],
        vec![fails(), works(SUCCEEDED), ran(4, "rtk bun test", None, SUCCEEDED)],
    ] {
        assert_eq!(subjects(&activities), [""; 0], "{activities:?}");
    }
}

#[test]
fn paraphrases_are_the_same_rule() {
    for (one, other) in [
        ("Use pnpm", "Always use pnpm."),
        ("Use pnpm, not npm", "please use pnpm not npm"),
        ("Use pnpm instead of npm", "Never use npm, use pnpm"),
        ("Always run the linter before committing", "Run the linter before you commit"),
        ("Never push to main", "Don't push directly to main because CI breaks"),
        ("Tests must not hit the network", "Tests must never hit the network"),
        ("Run the tests with `cargo nextest run`", "Run tests with cargo nextest run"),
        ("始终使用严格模式", "使用严格模式。"),
    ] {
        assert!(is_same(one, other) && !contradicts(one, other), "{one} | {other}");
    }
    for (one, other) in [
        ("Use pnpm", "Use yarn"),
        ("Always use tabs", "Never use tabs"),
        ("Use port 8080 for the API", "Use port 9090 for the metrics"),
        ("Use port 8080 for the API", "Use port 9090 for the API"),
        ("Never edit a.sql", "Never edit b.sql"),
        (
            "Never edit the generated schema in db/2024/a.sql by hand",
            "Never edit the generated schema in db/2024/b.sql by hand",
        ),
        ("Never use mocks in integration tests", "Never use mocks"),
        ("Run the tests with `make test`", "Run the tests with `cargo test`"),
        ("", ""),
    ] {
        assert!(!is_same(one, other), "{one} | {other}");
    }
}

#[test]
fn the_opposite_is_recognised() {
    for (newer, older) in [
        ("Always npm, never pnpm", "Always pnpm, never npm"),
        ("Never use tabs", "Always use tabs"),
        ("Use npm", "Use pnpm, not npm"),
        ("Use npm instead of pnpm", "Use pnpm instead of npm"),
        ("Use yarn, not pnpm", "Use pnpm"),
        ("Don't use mocks because they lie", "Use mocks"),
        ("The dev server listens on port 4000", "The dev server listens on port 3000"),
        ("Nutze pytest statt unittest", "Wir nutzen unittest"),
        ("不要使用 mocha", "始终使用 mocha"),
        ("mochaを使わないでください", "mochaを使ってください"),
    ] {
        assert!(contradicts(newer, older) && !is_same(newer, older), "{newer} | {older}");
    }
    for (newer, older) in [
        ("Use pnpm", "Use vitest"),
        ("Never use mocks in integration tests", "Use mocks in unit tests"),
        ("Never commit to main", "Never push to main"),
        ("Never edit a.sql", "Always edit b.sql by hand"),
        ("Use port 8080 for the API", "Use port 9090 for the metrics"),
        ("Lint with `make lint`", "Run the tests with `make test`"),
    ] {
        assert!(!contradicts(newer, older), "{newer} | {older}");
    }
}

#[test]
fn part_of_a_rule_is_included() {
    assert!(includes("Use pnpm, not npm", "Use pnpm") && includes("Use pnpm, not npm", "don't use npm"));
    assert!(!includes("Use tabs in Makefiles", "Use tabs") && !includes("Use pnpm", "Use pnpm, not npm"));
    assert!(!includes("Use pnpm, not npm", "Use npm"));
    assert!(restates("Generated files must not be edited", "Never edit generated files"));
    assert!(restates("Package manager is pnpm; npm breaks the lock file", "Use pnpm, not npm"));
    assert!(!restates("pnpm needs Node 20", "Use pnpm"), "one word in common is not enough");
    assert!(!restates("Generated files live in gen/", "Never edit generated files"));
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
fn known_learnings_decide_about_a_draft() {
    let all = [
        known(1, "Use pnpm, not npm", true, None),
        known(2, "Never log passwords", false, None),
        known(3, "Use tabs", false, Some(4)),
        known(4, "Use spaces, not tabs", true, None),
    ];
    let draft =
        |content: &str, confidence: f64| LearningDraft::new(Category::Convention, content, confidence);
    let step = |content: &str, confidence: f64| {
        weigh(&all, vec![draft(content, confidence)]).pop().map(|step| (step.seen, step.supersedes))
    };
    assert_eq!(step("Use pnpm, not npm", 0.6), Some((Some(1), vec![])), "seen again");
    assert_eq!(step("Use npm, not pnpm", 0.6), Some((None, vec![1])), "the newer replaces it");
    assert_eq!(step("Use npm, not pnpm", 0.4), Some((None, vec![])), "unless it is a guess");
    assert_eq!(step("never log passwords", 0.9), None, "forgotten stays forgotten");
    let forgotten = [known(5, "Use pnpm, not npm", false, None)];
    assert!(weigh(&forgotten, vec![draft("Use pnpm", 0.6)]).is_empty(), "nor does half of it come back");
    assert_eq!(weigh(&forgotten, vec![draft("Use yarn, not pnpm", 0.6)]).len(), 1, "another rule is learnt");
    assert_eq!(
        step("Use tabs", 0.6),
        Some((Some(3), vec![4])),
        "a superseded rule comes back when it is restated"
    );
    let by_hand = weigh_by_hand(&all, draft("Never log passwords", 1.0));
    assert_eq!(by_hand.seen, Some(2), "the user restores it");
}

#[test]
fn a_models_learnings_start_hidden_and_the_users_words_win() {
    let learnt = |content: &str| Learnt {
        category: None,
        content: content.into(),
        everywhere: true,
        known: None,
        replaces: None,
    };
    let all = [known(1, "Use pnpm, not npm", true, None)];
    let steps =
        |prompt: &str, learnt: Vec<Learnt>| by_model(learnt, KnownList::new(Some(prompt), &all, 0), &all);
    let made = steps(
        "Fix it. Never edit generated files.",
        vec![
            learnt("Generated files must not be edited"),
            learnt("The parser runs before the cache"),
            Learnt { replaces: Some(1), ..learnt("The package manager is yarn") },
            Learnt { known: Some(1), ..learnt("pnpm it is") },
        ],
    );
    let contents: Vec<&str> = made.iter().map(|step| step.draft.content.as_str()).collect();
    let expected = [
        "Never edit generated files",
        "The parser runs before the cache",
        "The package manager is yarn",
        "pnpm it is",
    ];
    assert_eq!(contents, expected);
    assert!(made[1].draft.confidence < SHOWN_FROM && !made[1].draft.everywhere);
    assert_eq!((made[2].supersedes.len(), made[3].seen), (0, Some(1)), "a guess replaces nothing");
    let global =
        steps("In all my projects, the parser matters", vec![learnt("The parser runs before the cache")]);
    assert!(!global[0].draft.everywhere, "a model never speaks for other projects");
}

#[test]
fn confidence_fades_by_the_day_unless_the_user_wrote_it() {
    use crate::model::confidence_left;
    const DAY: i64 = 24 * 60 * 60_000;
    let after = |days: i64| (confidence_left(0.7, 0, days * DAY) * 1000.0).round() / 1000.0;
    assert_eq!([after(0), after(60), after(90), after(120), after(400)], [0.7, 0.7, 0.6, 0.5, 0.0]);
    assert_eq!(confidence_left(1.0, 0, 4000 * DAY), 1.0);
    assert_eq!(confidence_left(0.7, 10 * DAY, 0), 0.7, "a clock that was set back changes nothing");
}
