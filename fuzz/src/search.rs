//! No query is an error or makes search panic; its hits are sorted, bounded, and of the requested kind. The input is one
//! parameter per line, `name=value`; without a name it is the query itself.

use claude_mem::config::Config;
use claude_mem::model::{Event, EventBody, EventKey, SessionId, SessionStamp};
use claude_mem::paths::Home;
use claude_mem::search::{self, Request};
use claude_mem::store;
use rusqlite::Connection;

const NOW: i64 = 1_790_000_000_000;

const TEXTS: [&str; 8] = [
    "Retry uploads when the signed URL expires",
    "parseConfigFile returns None for src/config/parse_file.rs",
    "用户登录失败的原因是令牌过期 and a timeout",
    "トークンの有効期限が切れた",
    "Straße, naïve café: \"quoted phrase\" AND NOT near(OR)",
    "HTTP 429 Too Many Requests; back-off of 5 s",
    "x",
    "\u{1f600} e\u{301} \u{202e}mixed\u{200b}",
];

thread_local! {
    static DATABASE: (tempfile::TempDir, Connection) = filled();
}

fn filled() -> (tempfile::TempDir, Connection) {
    let scratch = tempfile::tempdir().unwrap();
    let mut database = store::open_for_hook(&Home::at(scratch.path().join("mem")), 250).unwrap();
    for (at, text) in (0_i64..).zip(TEXTS) {
        let session = SessionStamp {
            id: SessionId(format!("s{}", at % 3)),
            project_key: String::new(),
            is_alias: false,
            project: "p".into(),
            project_path: "/p".into(),
            cwd: "/p".into(),
            branch: None,
            agent: Default::default(),
        };
        let event = Event {
            key: EventKey::Exact(at.to_string()),
            at: NOW - at * 86_400_000,
            session: Some(session),
            body: EventBody::Prompt { text: text.into() },
        };
        store::record(&mut database, &event).unwrap();
        let sql = "INSERT INTO observations (uid, session_id, project, type, title, summary, concepts, files_modified, created_at)
                   VALUES (?1, ?2, 'p', 'bugfix', ?3, ?3, '[\"retry\"]', '[\"src/upload.rs\"]', ?4)";
        let row = rusqlite::params![format!("u{at}"), format!("s{}", at % 3), text, NOW - at * 3_600_000];
        database.execute(sql, row).unwrap();
    }
    (scratch, database)
}

/// Panics if this does not hold.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parameters = std::collections::BTreeMap::<String, String>::new();
    for line in text.split('\n') {
        match line
            .split_once('=')
            .filter(|(name, _)| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        {
            Some((name, value)) => drop(parameters.insert(name.into(), value.into())),
            None => parameters.entry("q".into()).or_default().push_str(line),
        }
    }
    let query = serde_json::to_value(parameters).and_then(serde_json::from_value);
    let Ok(request) =
        query.map_err(|error| error.to_string()).and_then(|query| Request::from_query(&query, NOW))
    else {
        return;
    };
    DATABASE.with(|(_, database)| {
        let found = search::search(database, &request, &Config::default().search).unwrap();
        assert!(found.hits.len() <= request.limit && found.hits.len() <= found.total.max(1));
        assert!(found.hits.iter().all(|hit| hit.score.is_finite()));
        assert!(found.hits.windows(2).all(|two| two[0].score >= two[1].score), "{request:?}");
        if let Some(since) = request.filter.since {
            assert!(found.hits.iter().all(|hit| hit.created_at >= since));
        }
    });
}
