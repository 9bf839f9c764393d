//! Words to find an observation by: what its files, functions, packages and errors are called, and what both the
//! request and the work speak of.

use super::events::Act;
use super::grouping::Role;
use super::place::{file_name, is_generic_stem, subject};
use super::prose::Sentence;
use super::telling::Telling;
use super::text::push_new;
use crate::model::ObservationType;

pub(super) const MOST_CONCEPTS: usize = 10;
const LONGEST_CONCEPT: usize = 40;

/// The words of a unit, the most telling first.
pub(super) fn concepts(telling: &Telling<'_>, title: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |word: &str| {
        let word = word.to_lowercase();
        if is_telling(&word) {
            push_new(&mut found, &word, MOST_CONCEPTS);
        }
    };
    let errors = telling.commands.iter().filter_map(|command| command.error.as_ref());
    errors.filter_map(|(error, _)| error_name(error)).take(2).for_each(&mut add);
    telling
        .edits
        .iter()
        .map(|edit| subject(&edit.path))
        .filter(|subject| !is_generic_stem(subject) || subject.ends_with("file"))
        .take(3)
        .for_each(|subject| add(&subject));
    for step in telling.steps.iter().filter(|_| telling.role == Role::Research) {
        match &step.act {
            Act::Page(page) if page.search => words(&page.subject).take(3).for_each(|word| add(&word)),
            Act::Page(page) => add(file_name(&page.subject)),
            Act::Report(report) => words(&report.task).take(3).for_each(|word| add(&word)),
            _ => {}
        }
    }
    topics(telling.request, &telling.closing, title).iter().take(5).for_each(|word| add(word));
    telling.commands.iter().flat_map(|command| &command.packages).take(3).for_each(|package| add(package));
    for check in telling.last_checks().iter().take(1) {
        add(check.key.split(' ').next().unwrap_or_default());
    }
    let functions = telling.functions();
    let own = functions.iter().map(|name| name.rsplit([':', '.']).next().unwrap_or(name));
    own.filter(|name| name.len() >= 4).take(4).for_each(&mut add);
    found
}

fn is_telling(word: &str) -> bool {
    let length = word.chars().count();
    let is_type = ObservationType::ALL.iter().any(|kind| {
        let name = kind.as_str();
        word == name || word.strip_suffix('s') == Some(name) || word.strip_suffix("es") == Some(name)
    });
    let named = word.chars().any(char::is_alphabetic);
    let wide = word.chars().any(|char| char >= '\u{2e80}');
    (length >= 3 || (wide && length >= 2))
        && length <= LONGEST_CONCEPT
        && named
        && !is_type
        && word != "decisions"
        && word != "discoveries"
}

/// `E0502`, `TS2345`, `TypeError`, `ENOENT`.
fn error_name(error: &str) -> Option<&str> {
    let words =
        || error.split(|char: char| !(char.is_alphanumeric() || char == '_')).filter(|word| word.len() >= 4);
    let is_code = |word: &&str| {
        let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
        let digits = word.len() - letters;
        (1..=3).contains(&letters)
            && digits >= 3
            && word.bytes().skip(letters).all(|byte| byte.is_ascii_digit())
    };
    let is_exception =
        |word: &&str| (word.ends_with("Error") || word.ends_with("Exception")) && word.len() > 6;
    let is_errno = |word: &&str| {
        word.starts_with('E')
            && word.len() >= 5
            && *word != "ERROR"
            && word.bytes().all(|byte| byte.is_ascii_uppercase())
    };
    words().find(is_code).or_else(|| words().find(is_exception)).or_else(|| words().find(is_errno))
}

/// Words that are said more than once, by both sides or in the title, by how often.
fn topics(request: &[Sentence], closing: &[&Sentence], title: &str) -> Vec<String> {
    let mut counted: Vec<(String, usize, usize)> = Vec::new();
    let texts = request
        .iter()
        .take(12)
        .map(|sentence| (sentence.text.as_str(), 2))
        .chain(closing.iter().take(12).map(|sentence| (sentence.text.as_str(), 1)));
    for (text, weight) in texts.chain([(title, 2)]) {
        for word in words(text) {
            let order = counted.len();
            match counted.iter_mut().find(|(known, ..)| *known == word) {
                Some((_, count, _)) => *count += weight,
                None if order < 400 => counted.push((word, weight, order)),
                None => {}
            }
        }
    }
    counted.retain(|(_, count, _)| *count >= 3);
    counted.sort_by_key(|(_, count, order)| (std::cmp::Reverse(*count), *order));
    counted.into_iter().map(|(word, ..)| word).collect()
}

/// The words of a text that could be a topic. Scripts without blanks give what stands between their marks.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let edges = |char: char| !(char.is_alphanumeric() || char == '_' || char == '-');
    text.split(edges).map(|word| word.trim_matches(['-', '_']).to_lowercase()).filter(|word| {
        let length = word.chars().count();
        let wide = word.chars().any(|char| char >= '\u{2e80}');
        let fits = if wide { (2..=8).contains(&length) } else { (4..=LONGEST_CONCEPT).contains(&length) };
        fits && !is_common(word) && word.starts_with(char::is_alphabetic)
    })
}

fn is_common(word: &str) -> bool {
    const COMMON: &str = " about above added adding after again also always another because been before being below between \
        both call called calls came cannot change changed changes check code could create created current does doesn done down \
        each else error errors even every everything existing fail failed failing fails file files find first fixed fixes found \
        from function functions gets give given going good have having here however implement implemented instead into issue just \
        keep know last left like line lines list look looks made make makes many maybe might more most much must name need needed \
        needs never next none nothing once only other over part pass passed passes passing please problem properly really rather \
        return returns running same see seems several should show shows side since some something still such sure take than that \
        their them then there these they thing things this those three through time together turn under until update updated use \
        used user uses using value very want wants was well were what when where whether which while will with within without work \
        working works would wrong your yours test tests tested bitte dass eine einen einer auch aber nicht noch oder sind wird wurde \
        werden kann haben hast habe diese dieser dieses find answer read search commit push install research note that edit line \
        rename move delete look around written write page says said told \
        handle handled correct corrected correctly actual actually already available based better build built bug bugs \
        completed default different easy either enough expected explain fix following full fully further get got has help how its \
        let may new now number off one our out own per place possible present previous provide provided quick run runs ran second set \
        simple simply single happens asks stays missing values items small specific start started step steps summary support supported the think too tried try two type up via \
        way why yes yet you feature refactor discovery decision bugfix ";
    COMMON.contains(&format!(" {word} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_give_their_names() {
        assert_eq!(error_name("error[E0502]: cannot borrow `x`"), Some("E0502"));
        assert_eq!(error_name("a.ts(3,5): error TS2345: Argument"), Some("TS2345"));
        assert_eq!(error_name("ValueError: invalid literal"), Some("ValueError"));
        assert_eq!(error_name("connect ECONNREFUSED 127.0.0.1"), Some("ECONNREFUSED"));
        assert_eq!(error_name("something went wrong"), None);
    }

    #[test]
    fn a_type_is_never_a_concept() {
        for word in ["bugfix", "features", "refactor", "change", "discovery", "decisions", "ab", "12345"] {
            assert!(!is_telling(word), "{word}");
        }
        assert!(is_telling("upload") && is_telling("登录"));
    }
}
