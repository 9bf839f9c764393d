//! Lasting rules in German sentences. "Immer noch" and "gibt immer null zurück" are none.

use super::each;
use super::rules::{FoundRule, Leads, Led, Pause};

const LEADS: Leads = Leads {
    plain: (
        "bitte|und|aber|also|ok|okay|hey|wichtig|in diesem projekt|in diesem repo|hier|achte darauf|stell sicher",
        Pause::Blank,
    ),
    lasting: (
        "ab jetzt|ab sofort|von jetzt an|von nun an|in zukunft|künftig|zukünftig|merk dir|denk daran|grundsätzlich",
        Pause::Blank,
    ),
    correcting: "nein|nee|falsch|das ist falsch|nicht so|stimmt nicht",
};
const PASSING: &str = "erstmal|erst mal|vorerst|diesmal|dieses mal|heute|gerade|für jetzt|noch nicht|im moment|jetzt mal|jetzt nie|\
    vielleicht|ich glaube|ich denke|aktuell|momentan|zuerst|schritt";
const POINTING: &str = "das|dies|diese|dieses|diesen|es|ihn|sie|dir|mir|den anderen|die andere|alles|etwas";

/// Imperatives to one person.
const VERBS: &str = "verwende|benutze|benutz|nutze|nutz|nimm|schreib|schreibe|mach|mache|lass|führe|führ|starte|teste|\
    committe|commite|nenn|nenne|lege|leg|setze|setz|prüfe|prüf|antworte|vermeide|ändere|lösche|pushe|halte|formatiere|\
    frag|frage|erkläre|merge|installiere";
/// Verbs of usage in the plural and infinitive.
const USING: &str = "verwenden|benutzen|nutzen|nehmen|schreiben|committen|pushen|mergen";
/// Subjects of rules.
const ARTIFACTS: &str = "tests|unit-tests|commits|commit-nachrichten|commit-messages|dateien|migrationen|funktionen|klassen|\
    komponenten|importe|fehlermeldungen|passwörter|secrets|tokens|branches|typen|kommentare|logs|abfragen|skripte|module|\
    variablen|konstanten|änderungen|abhängigkeiten|schnittstellen|pull-requests|prs|texte|namen";

pub(super) fn rule(text: &str, corrects: bool) -> Option<FoundRule> {
    let Led { rest, corrects, lasts } = LEADS.strip(text, corrects);
    let lower = rest.to_lowercase();
    let claim = each(", weil |, da |, denn |, sonst |, damit ")
        .filter_map(|joint| lower.find(joint))
        .min()
        .map_or(lower.as_str(), |end| &lower[..end]);
    let words: Vec<&str> = claim.split_whitespace().map(|word| word.trim_matches([',', ':', ';'])).collect();
    let passes = each(PASSING).any(|word| format!(" {claim} ").contains(&format!(" {word} ")));
    let [first, second, ..] = words[..] else { return None };
    if passes || each(POINTING).any(|word| word == second) {
        return None;
    }
    let is_one_of = |word: &str, list: &'static str| each(list).any(|known| known == word);
    let is_order = is_one_of(first, VERBS);
    let ever = |word: &&str| matches!(*word, "immer" | "stets" | "nie" | "niemals");
    let is_no = |word: &&str| matches!(*word, "kein" | "keine" | "keinen" | "nicht");
    // Verwende immer …; immer … verwenden; wir committen nie …; Tests dürfen nie …
    let by_us = first == "wir" && is_one_of(second, USING);
    let modal = is_one_of(first, ARTIFACTS)
        && matches!(second, "müssen" | "dürfen" | "sollen")
        && (second != "sollen" || words.iter().any(ever));
    if modal
        || ((is_order || by_us) && words.iter().skip(1).take(4).any(ever))
        || has_infinitive(&words)
        || (is_order && each("in zukunft|künftig|ab jetzt|ab sofort").any(|when| claim.contains(when)))
        || (lasts && words.len() >= 3 && (is_order || words.last().is_some_and(|last| last.ends_with('n'))))
    {
        return Some(FoundRule::strict(rest));
    }
    let uses = matches!(first, "verwende" | "benutze" | "benutz" | "nutze" | "nutz" | "nimm");
    let refuses_use = is_no(&first) && words.last().is_some_and(|last| is_one_of(last, USING));
    let refuses = (uses && words.iter().skip(1).take(2).any(is_no)) || refuses_use;
    let prefers = first == "ich" && second == "bevorzuge";
    let by_custom = first == "wir" && matches!(second, "verwenden" | "benutzen" | "nutzen");
    if (refuses || by_custom || prefers) && words.len() >= 3 {
        return Some(FoundRule::custom(rest));
    }
    let compares = words.iter().any(|word| matches!(*word, "statt" | "anstatt" | "anstelle" | "sondern"))
        || claim.contains(", nicht ");
    (uses && (corrects || compares)).then(|| FoundRule::comparison(rest)).flatten()
}

/// "Immer pnpm verwenden", "niemals auf main pushen": the verb comes last. "Immer noch" and "nie wieder" differ, and
/// "immer npm, nie pnpm" needs no verb.
fn has_infinitive(words: &[&str]) -> bool {
    let [first, second, .., last] = words else { return false };
    let others = [
        "noch",
        "wieder",
        "mehr",
        "öfter",
        "häufiger",
        "wenn",
        "dasselbe",
        "derselbe",
        "der",
        "das",
        "gesehen",
    ];
    let opens = |word: &str| matches!(word, "immer" | "stets" | "nie" | "niemals");
    let is_pair = words.len() <= 8 && words[1..].iter().any(|word| opens(word));
    opens(first)
        && !others.contains(second)
        && (is_pair || (last.ends_with('n') && !last.ends_with("worden") && !last.starts_with("ge")))
}
