//! Verbs of work: how a report ("I've fixed …") or a wish ("could you fix …") becomes an imperative, and what kind of
//! work the verb speaks of.

use crate::model::ObservationType;

use super::text::{capitalised, each};

/// Verbs as `past base`, by what they speak of.
const FIXING: &str = "fixed fix|repaired repair|corrected correct|patched patch|debugged debug|\
    prevented prevent|avoided avoid|handled handle";
const ADDING: &str = "added add|implemented implement|created create|built build|introduced introduce|\
    supported support|wrote write|enabled enable|integrated integrate|exposed expose|wired wire|\
    generated generate|extended extend|cached cache";
const RESHAPING: &str = "refactored refactor|renamed rename|extracted extract|simplified simplify|\
    split split|restructured restructure|reorganized reorganize|cleaned clean|consolidated consolidate|\
    inlined inline|deduplicated deduplicate|rewrote rewrite|converted convert";
const CHANGING: &str = "merged merge|updated update|changed change|bumped bump|upgraded upgrade|removed remove|\
    deleted delete|dropped drop|configured configure|installed install|documented document|improved improve|\
    optimized optimize|adjusted adjust|replaced replace|switched switch|set set|disabled disable|\
    reverted revert|formatted format|committed commit|pushed push|deployed deploy|released release|\
    tightened tighten|limited limit|moved move|migrated migrate|raised raise|lowered lower|increased increase|\
    reduced reduce|pinned pin|hid hide|swapped swap";
const LOOKING: &str = "found find|investigated investigate|analyzed analyze|explored explore|reviewed review|\
    looked look|explained explain|traced trace|researched research|compared compare";
const DECIDING: &str = "decided decide|chose choose|planned plan";
const OTHER: &str = "resolved resolve|made make|ran run|tested test|verified verify|checked check";
/// Verbs of wishes that no report uses.
const WISHING: &str = "show|use|start|allow|ensure|give|try|stop|read|search|figure|get|bring|port|speed|turn|\
    keep|hide|list|describe|tell|summarize|understand";

/// A verb of work.
struct Verb {
    past: &'static str,
    base: &'static str,
    kind: Option<ObservationType>,
}

fn verbs() -> impl Iterator<Item = Verb> {
    use ObservationType::{Bugfix, Change, Decision, Discovery, Feature, Refactor};
    let tables = [
        (FIXING, Some(Bugfix)),
        (ADDING, Some(Feature)),
        (RESHAPING, Some(Refactor)),
        (CHANGING, Some(Change)),
        (LOOKING, Some(Discovery)),
        (DECIDING, Some(Decision)),
        (OTHER, None),
    ];
    tables.into_iter().flat_map(|(table, kind)| {
        each(table).filter_map(move |pair| pair.split_once(' ').map(|(past, base)| Verb { past, base, kind }))
    })
}

/// Words that may stand before the verb of a report.
const REPORT_OPENINGS: &str =
    "i've|i’ve|i|we've|we|have|successfully|now|also|just|then|done:|done|first,|and|—|-";

/// Words that may stand before the verb of a wish.
const WISH_OPENINGS: &str = "please|can|could|would|will|you|i|i'd|want|need|like|to|us|let's|lets|now|ok|okay|then|\
        also|next,|hey|hi|hi,|great,|ok,|now,|just|go|ahead|and|quickly|bitte|help";

/// The report as an imperative: "I've fixed the login and added a test" is "Fix the login and add a test". None if it
/// does not begin with a verb of work.
pub(super) fn imperative(report: &str) -> Option<String> {
    let mut words: Vec<&str> = report.split_whitespace().collect();
    let opening = words
        .iter()
        .take_while(|word| each(REPORT_OPENINGS).any(|known| known == word.to_lowercase()))
        .count();
    words.drain(..opening);
    let first = words.first()?.to_lowercase();
    base_of(&first)?;
    let mut out: Vec<String> = Vec::with_capacity(words.len());
    let mut expects_verb = true;
    for word in words {
        let lower = word.to_lowercase();
        match base_of(lower.trim_end_matches(',')).filter(|_| expects_verb) {
            Some(base) => out.push(format!("{base}{}", if word.ends_with(',') { "," } else { "" })),
            None => out.push(word.to_owned()),
        }
        expects_verb = word.ends_with([',', ';'])
            || matches!(lower.as_str(), "and" | "then")
            || (expects_verb && matches!(lower.as_str(), "i" | "also"));
    }
    Some(capitalised(&out.join(" ")))
}

/// The wish without its politeness: "Could you please fix the login?" is "Fix the login". None if no verb of work
/// follows.
pub(super) fn wish(sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let opening =
        words.iter().take_while(|word| each(WISH_OPENINGS).any(|known| known == word.to_lowercase())).count();
    let rest = &words[opening..];
    let first = rest.first()?.to_lowercase();
    let known = verbs().any(|verb| verb.base == first.trim_end_matches(','))
        || each(WISHING).any(|verb| verb == first);
    (known && opening + 1 < words.len())
        .then(|| capitalised(rest.join(" ").trim_end_matches(['?', '.', '!'])))
}

fn base_of(past: &str) -> Option<&'static str> {
    verbs().find(|verb| verb.past == past).map(|verb| verb.base)
}

/// What kind of work a title speaks of, by its first verb, or by a word that says it in any position.
pub(super) fn kind_of_words(text: &str) -> Option<ObservationType> {
    let lower = text.to_lowercase();
    let first = lower.split(|char: char| !char.is_alphanumeric()).find(|word| !word.is_empty())?;
    let by_verb = verbs().find(|verb| verb.base == first || verb.past == first).and_then(|verb| verb.kind);
    by_verb.or_else(|| kind_of_stem(&lower))
}

/// What kind of work a wish speaks of, wherever its verbs stand. A broken thing weighs more than a new one.
pub(super) fn kind_of_wish(text: &str) -> Option<ObservationType> {
    let lower = text.to_lowercase();
    let speaks_of = |wanted: ObservationType| {
        lower
            .split(|char: char| !char.is_alphanumeric())
            .any(|word| verbs().any(|verb| verb.base == word && verb.kind == Some(wanted)))
    };
    use ObservationType::{Bugfix, Feature, Refactor};
    [Bugfix, Refactor, Feature].into_iter().find(|kind| speaks_of(*kind)).or_else(|| kind_of_stem(&lower))
}

/// Stems that say it, in a few languages.
fn kind_of_stem(lower: &str) -> Option<ObservationType> {
    use ObservationType::{Bugfix, Feature, Refactor};
    const BROKEN: &str = "bug|broken|crash|regression|typo|doesn't work|not working|fails|failing|leak|deadlock|hangs|wrong|incorrect|traceback|behebe|behob|\
        fehler|repariere|korrigiere|修复|修正|バグ|不具合|错误|corrige|arregla";
    const SHAPE: &str = "refactor|refaktor|umbenenn|重构|リファクタ|rename";
    const NEW: &str = "implementier|hinzu|erstelle|添加|新增|实现|追加|実装|añade";
    let stems = [(BROKEN, Bugfix), (SHAPE, Refactor), (NEW, Feature)];
    stems.into_iter().find(|(stems, _)| each(stems).any(|stem| lower.contains(stem))).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_become_imperatives() {
        for (report, expected) in [
            (
                "Fixed the greeting in app.py (Helo -> Hello), added test_app.py and ran it.",
                "Fix the greeting in app.py (Helo -> Hello), add test_app.py and run it.",
            ),
            (
                "I've successfully implemented retries and updated the docs",
                "Implement retries and update the docs",
            ),
            ("I added a cache, which was set too small", "Add a cache, which was set too small"),
        ] {
            assert_eq!(imperative(report).as_deref(), Some(expected));
        }
        for other in ["The login works now", "I think so", "Der Fehler ist behoben", "", "fix"] {
            assert_eq!(imperative(other), None, "{other}");
        }
    }

    #[test]
    fn wishes_lose_their_politeness() {
        assert_eq!(wish("Could you please fix the login page?").as_deref(), Some("Fix the login page"));
        assert_eq!(wish("I'd like you to add retries").as_deref(), Some("Add retries"));
        assert_eq!(wish("please look at app.py, fix it").as_deref(), Some("Look at app.py, fix it"));
        for other in ["why does it fail?", "the login is broken", "continue", "fix", "修复登录"] {
            assert_eq!(wish(other), None, "{other}");
        }
    }

    #[test]
    fn the_kind_of_work_follows_from_the_words() {
        use ObservationType::{Bugfix, Feature, Refactor};
        assert_eq!(kind_of_words("Add retry to upload client"), Some(Feature));
        assert_eq!(kind_of_words("修复登录页面"), Some(Bugfix));
        assert_eq!(kind_of_words("Die Klasse umbenennen"), Some(Refactor));
        assert_eq!(kind_of_wish("Please look at app.py, fix the greeting, add a test"), Some(Bugfix));
        assert_eq!(kind_of_wish("what is this?"), None);
    }
}
