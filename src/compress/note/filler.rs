//! Sentences that are useless to a later reader: praise, claims of success, announcements, offers, chores.

use std::sync::LazyLock;

use regex::Regex;

use super::prose::gives_reason;
use crate::text::{capitalised, pattern};

/// Maximum length of filler, in characters. A longer sentence has other content too.
const FILLER_CHARS: usize = 170;

/// Each pattern matches a whole sentence.
const FILLER: [&str; 6] = [
    // Praise and exclamations.
    r"(perfect|great|excellent|awesome|done|fixed|good|nice|wonderful|ok(ay)?|got\ it|understood|sure|yes|no|right|exactly|correct|absolutely|all\ (set|good|done|clean|green)
      |you('re|\ are)\ (absolutely\ |completely\ )?(right|correct|welcome)\b[^.,;]{0,40}|you\ raise\b.*|glad\b.*|(i\ think\ )?i\ (have\ )?found\ it|this\ is\ (a\ |an\ )?(great|good|nice|excellent|clever|interesting)\b.*|false\ alarm\b.*|to\ answer\ your\ question\b.*|(good|great|nice|excellent)\ (catch|point|question|idea|call)(\ on\b.*)?|that'?s\ [^.,;:]{0,30}|interesting\ \w+)
      ([\s,.!-]+(all\ )?(done|now|fixed|set|good|point|catch))*",
    // Claims of success: only certain results may make them.
    r"(now\ )?(all|both|the|every|everything|[0-9][0-9,]*|no|zero|lint(er|ing)?|type-?checks?|rust|go|typescript|tests?|build|code|it|formatting|pre-commit|hooks|checks?|commit|unit|integration|full)\b[^.:]*?
      \b(pass(es|ed|ing)?|(is|are|lint|now|still|all)\ clean|cleanly|green|succeed(s|ed)?|successful(ly)?|compile[sd]?|builds|in\ (place|order)|look(s|ing)?\ (good|correct|clean|right)
      |(is|are)\ (now\ )?(complete|done|good|fixed|ready|working|up\ to\ date|staged)|no\ (issues|errors|regressions|warnings|problems)|(issues|errors|warnings)\ (found|remain))\b[^.]*",
    // Announcements.
    r"(now\ )?i\ (can\ )?(now\ )?(fully\ |clearly\ )?(understand|see)\b.*|(the\ )?(analysis|review|investigation)\ (is\ )?(done|complete)\b.*|(all\ )?(the\ )?(root\ cause|bug|issue|claims?|\d+)\ (is\ |are\ )?(now\ )?(verified|confirmed|identified|found)\b.*|(solved|fixed|done|implemented|completed|shipped)\ and\ (committed|pushed|tested|verified)\b.*|(all|both)\b[^.]*\b(fixes|changes|updates|items)\ are\ in\b.*|(i('ve|\ have)?\ )?(completed|finished)\ (a|the|my)\ \w*\ ?(search|review|pass|analysis|audit)\b.*|(i\ have|i've|i)\ fixed\ (it|this|(the|both)\ \w+)|(i\ )?(have\ )?found\ (it|the\ (root\ cause|actual\ bug|problem|issue|bug))
      |(here('s|\ is|\ are)|below\ (is|are)|the\ following|in\ summary|to\ summarize|let\ me|now\ (let\ me|i('ll|\ will|\ have|\ need))|i('ll|\ will|\ am\ going\ to|'m\ going\ to)
      |first,?\ (let|i)|next,?\ (let|i)|(i('ve|\ have)\ )?gathered\ (all|enough)|i\ (now\ )?have\ (all|enough|everything|a\ (clear|complete|full|good))|based\ on\ (my|the|your)\b[^,]*)\b.*
      |(i('ve|\ have)|we('ve|\ have)|i)\ (successfully\ |now\ )?(completed|finished|implemented|made|updated|applied|verified|summarized|created|reviewed|analyzed|compiled|done)\b
      [^.:]*\b(plan|changes|everything|all\ \w+|following|task|implementation|request(ed)?|feature|fix|summary|review)
      |(the\ )?(implementation|plan|change|fix|refactor(ing)?|work|task|migration|commit|branch|pr)s?\ (is|are|has\ been|was|were)\ (now\ )?(complete|done|in\ place|ready|finished|successful|created|pushed|committed|applied|made|staged)\b.*
      |(summary\ of\ )?(the\ )?(changes|what)\ (made|changed|i\ (did|changed)|was\ (done|changed|simplified))|(all\ |the\ )?(changes|steps|tasks|items)\ (are|have\ been|were)\ (now\ )?(implemented|made|done|complete|applied|in\ place|staged)",
    // Work that goes on elsewhere.
    r"(the\ )?(monitor|background\ task|watcher)\b.*\b(still|running|watching)\b.*
      |.*\b(still\ (running|waiting|in\ progress|going)|wait(ing)?\ for\ (it|them|the|all)|i'll\ (report|wait|check|let|update)|let\ you\ know|once\ (it|they|the\ \w+)\ (finish|complete|return)\w*)\b.*
      |(waiting|still\ waiting|the\ (agents?|tests?)\ (is|are)\ (still\ )?running|running)\b.*",
    // Chores of version control, and faults of others.
    r"(commit(ted)?|pushed|shipped|created\ (a\ )?(commit|pr|pull\ request))\b.*|the\ commit\ (is|was)\b.*|[^.]*\b(files?|changes)\b[^.]*\b(is|are|was|were)\ (now\ )?(committed|untouched|unstaged|staged)\b.*|\d+\ files?\ changed\b.*|not\ (yet\ )?(pushed|committed)\b.*
      |.*\b(pre-?existing|unrelated\ to|not\ (our|my|your)\ (code|changes?)|no\ test\ impact)\b.*",
    // Questions and offers to the user.
    r"(would|do|did|should|shall|can|could|may|want|are|is)\ (you|i|we|me|there)\b.*\?|(want|need)\ me\ to\b.*|.*\b(say\ (the\ )?word|tell\ me|want\ me\ to|would\ you\ like|do\ you\ want|should\ i)\b.*
      |(let\ me\ know|feel\ free|just\ (let|say|tell)|if\ you('d|\ would)?\ (like|want|need|prefer)|ready\ (to|for|when)|happy\ to|you\ can\ (now|also|test|try|run|verify)|please\ (review|let|test|confirm|check)
      |what\ would\ you\ like|which\ (one|option|approach)|how\ would\ you\ like|sound\ good|soll\ ich|möchtest\ du|souhaitez|voulez)\b.*",
];

/// True for a sentence or a heading without content, also behind a label: "`make test` - all tests pass".
pub(super) fn is_filler(text: &str) -> bool {
    let is_label = |label: &str| label.split_whitespace().count() <= 4;
    let behind = [" - ", " — ", ": "].iter().find_map(|mark| text.split_once(mark));
    let is_introduced = text.split_once(": ").is_some_and(|(lead, rest)| is_hedged(lead) && !is_empty(rest));
    !is_introduced && is_empty(text) || behind.is_some_and(|(label, rest)| is_label(label) && is_empty(rest))
}

fn is_empty(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(&format!("(?ix)^({})$", FILLER.join("|"))));
    let bare = text.trim_matches(|char: char| !char.is_alphanumeric() && char != '?');
    // A reason behind the claim makes it worth keeping.
    bare.chars().count() <= FILLER_CHARS
        && PATTERN.as_ref().is_some_and(|filler| filler.is_match(bare))
        && (bare.ends_with('?') || !gives_reason(bare))
}

/// Removes openers and empty labels: "You're right - the cache is stale" → "The cache is stale".
pub(super) fn without_opener(text: &str) -> String {
    static OPENER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)^((ah|oh|hm+)?,?\s*(yes,?\s+)?(you'?re (absolutely )?(right|correct)|(good|great|nice) (catch|point|question|idea|call)|perfect|excellent|great|done|fixed|right|got it|understood|sure|yes|no|yeah|found it)\s*(\s[—–-]|[,.!:;])\s+|so,? |because |(good news|summary|finding|result|conclusion|bottom line|answer|short answer|tl;dr|done|update|note)\s*:\s+)",
        )
    });
    let mut rest = text;
    while let Some(found) = OPENER.as_ref().and_then(|opener| opener.find(rest)) {
        rest = &rest[found.end()..];
    }
    // "The change is done — the flag is now passed on": the claim goes, the statement stays.
    if let Some((claim, statement)) = rest.split_once(" — ").or_else(|| rest.split_once(" - "))
        && is_empty(claim)
        && statement.split_whitespace().count() >= 4
    {
        rest = statement;
    }
    if rest.len() == text.len() { text.to_owned() } else { capitalised(rest) }
}

/// True for an introduction that says how sure its author is of what follows: "Here's what I think happened:".
pub(super) fn is_hedged(lead: &str) -> bool {
    static HEDGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)\b(i think|i believe|likely|probabl[ey]|perhaps|guess|suspect\w*|hypothes\w+|theory|assum\w+|possib\w+|potential\w*|might|could|would|should|propos\w+|suggest\w+|recommend\w*|plan|option|options|wahrscheinlich|vermutlich)\b",
        )
    });
    HEDGE.as_ref().is_some_and(|hedge| hedge.is_match(lead))
}

/// True for lines that introduce offers, options or possibilities.
pub(super) fn is_offer(lead: &str) -> bool {
    static OFFER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^(if\ you|when\ you|should\ (i|we)|would\ you|do\ you|want|let\ me|you\ (could|can|might|may|have)|we\ (could|might)|i\ (could|can|would|might)|options?\b|choose|pick|alternatively)\b",
        )
    });
    OFFER.as_ref().is_some_and(|offer| offer.is_match(lead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filler_is_recognised_and_statements_are_not() {
        for filler in [
            "Perfect!",
            "Done.",
            "All tests pass.",
            "All 1309 tests pass with no failures.",
            "Great, all done!",
            "Here's a summary of the changes:",
            "Would you like me to commit this?",
            "Let me know if you want more.",
            "The implementation is complete.",
            "Lint is clean.",
            "I've completed all the requested changes.",
            "Both tests pass.",
            "Let me now check the other file.",
            "You're absolutely right!",
            "Everything looks good.",
            "Now I have all the information I need.",
            "Committed as 1a2b3c4.",
            "Want me to go on?",
            "No issues found.",
            "Tests pass and lint is clean.",
            "Soll ich das committen?",
            "`make test` - All unit tests pass",
            "That's a clean design.",
        ] {
            assert!(is_filler(filler), "{filler}");
        }
        for kept in [
            "Removed the retry line since the tool does not support it.",
            "The cache key now includes the branch.",
            "Fixed the race in the upload queue.",
            "All requests go through the proxy because the firewall drops others.",
            "The tests use a fake clock.",
            "Added a lock around the counter.",
            "No request is sent without a key.",
            "The build directory is wiped by --clean, which deleted the tarball.",
            "Let callers pass their own clock.",
        ] {
            assert!(!is_filler(kept), "{kept}");
        }
    }

    #[test]
    fn openers_and_empty_labels_go() {
        assert_eq!(without_opener("You're right - the cache is stale"), "The cache is stale");
        assert_eq!(without_opener("Done — moved the lock."), "Moved the lock.");
        assert_eq!(without_opener("The change is done — the flag is passed on."), "The flag is passed on.");
        assert_eq!(without_opener("Summary: Two writers, one file."), "Two writers, one file.");
        assert_eq!(
            without_opener("Great circle distances are cached."),
            "Great circle distances are cached."
        );
    }
}
