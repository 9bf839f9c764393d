//! What lasts of a German sentence. "Immer noch" and "gibt immer null zurück" do not.

use super::said::{Heard, Leads, Led};
use super::{each, sure};

const LEADS: Leads = Leads {
    plain: "bitte|und|aber|also|ok|okay|hey|wichtig|in diesem projekt|hier",
    lasting: "ab jetzt|ab sofort|von jetzt an|von nun an|in zukunft|künftig|zukünftig|merk dir|denk daran|\
    grundsätzlich",
    correcting: "nein|nee|falsch|das ist falsch|nicht so|stimmt nicht",
    led,
    led_by_no: led,
};
const PASSING: &str =
    "erstmal|erst mal|vorerst|diesmal|dieses mal|heute|gerade|für jetzt|noch nicht|im moment";

/// Verbs in the form of an instruction to one person.
const VERBS: &str = "verwende|benutze|benutz|nutze|nutz|nimm|schreib|schreibe|mach|mache|lass|führe|führ|starte|\
    teste|committe|commite|nenn|nenne|lege|leg|setze|setz|prüfe|prüf|antworte|vermeide|ändere|\
    lösche|pushe|halte|formatiere";

pub(super) fn heard(text: &str, corrects: bool) -> Option<Heard> {
    let Led { rest, corrects, lasts } = LEADS.strip(text, corrects);
    let lower = rest.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().map(|word| word.trim_matches([',', ':', ';'])).collect();
    if words.len() < 2 || each(PASSING).any(|word| format!(" {lower} ").contains(&format!(" {word} "))) {
        return None;
    }
    let pointing = ["das", "dies", "diese", "dieses", "es", "ihn", "sie", "den anderen", "die andere"];
    let is_order = each(VERBS).any(|known| known == words[0]);
    if is_order && pointing.contains(&words[1]) {
        return None;
    }
    let ever = |word: &&str| matches!(*word, "immer" | "stets" | "nie" | "niemals");
    // Verwende immer …; immer … verwenden; wir verwenden immer …
    let rule = (is_order && words.iter().skip(1).take(3).any(ever)) || infinitive(&words);
    if rule || (lasts && (is_order || words.len() >= 3)) {
        return Some(Heard::new(rest, sure::RULE));
    }
    let compares = words.iter().any(|word| matches!(*word, "statt" | "anstatt" | "anstelle" | "sondern"))
        || lower.contains(", nicht ");
    let uses = matches!(words[0], "verwende" | "benutze" | "benutz" | "nutze" | "nutz" | "nimm");
    if uses && (corrects || compares) {
        return Some(Heard::new(rest, if corrects { sure::CORRECTION } else { sure::SHOWN }));
    }
    let by_us =
        words[0] == "wir" && matches!(words[1], "verwenden" | "benutzen" | "nutzen") && words.len() >= 3;
    if by_us {
        return Some(Heard::new(rest, if corrects { sure::CORRECTION } else { sure::SHOWN }));
    }
    let is_preference = words[0] == "ich" && words[1] == "bevorzuge";
    if is_preference {
        return Some(Heard::preference(rest));
    }
    (corrects && is_order).then(|| Heard::new(rest, sure::HEARD))
}

/// "Immer pnpm verwenden", "niemals auf main pushen": the verb comes last. "Immer noch" and "nie wieder" are others.
fn infinitive(words: &[&str]) -> bool {
    let [first, second, .., last] = words else { return false };
    matches!(*first, "immer" | "stets" | "nie" | "niemals")
        && !matches!(
            *second,
            "noch"
                | "wieder"
                | "mehr"
                | "öfter"
                | "häufiger"
                | "wenn"
                | "dasselbe"
                | "der"
                | "das"
                | "gesehen"
        )
        && last.ends_with('n')
        && !last.ends_with("worden")
        && !last.starts_with("ge")
}

fn led<'t>(text: &'t str, lead: &str) -> Option<&'t str> {
    let head = text.get(..lead.len())?;
    if head.to_lowercase() != lead {
        return None;
    }
    let rest = &text[lead.len()..];
    let after = rest.trim_start_matches([',', ':', ' ', '-', '–', '—', '!', '.']);
    (after.len() < rest.len() && !after.is_empty()).then_some(after)
}
