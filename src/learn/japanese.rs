//! What lasts of a Japanese sentence: the end of it says whether it asks for something. 必ず失敗する does not.

use super::said::{Heard, Leads, Led};
use super::{each, sure};

const LEADS: Leads = Leads {
    plain: "あと|それと|また|なお|ちなみに|すみません",
    lasting: "今後は|これからは|次からは|以後は|今後|これから|覚えておいて|原則として",
    correcting: "いいえ|いや|違います|違う|ちがう|そうじゃなくて|そうではなく|間違いです|違って",
    led,
    led_by_no: led,
};
const PASSING: &str = "今回は|今だけ|とりあえず|一旦|いったん|まだ|今日は";

/// How a request ends.
const ENDS: &str = "ください|下さい|してね|して|使って|しないで|ないで|こと|なさい|お願いします|お願い|ように|置いて|書いて|入れて|付けて|避けて";

pub(super) fn heard(text: &str, corrects: bool) -> Option<Heard> {
    let Led { rest, corrects, lasts } = LEADS.strip(text, corrects);
    let end = rest.trim_end_matches(['ね', 'よ', '！', '!', ' ']);
    let asks_for = each(ENDS).any(|word| end.ends_with(word));
    let points = ["それ", "これ", "あれ", "そっち", "こっち"].iter().any(|word| rest.starts_with(word));
    let passes = each(PASSING).any(|word| rest.contains(word));
    if !asks_for || points || passes || rest.chars().count() < 5 {
        return None;
    }
    let is_rule =
        ["常に", "必ず", "絶対に", "いつも", "決して", "毎回"].iter().any(|word| rest.contains(word));
    if is_rule || lasts {
        return Some(Heard::new(rest, sure::RULE));
    }
    let compares = ["ではなく", "じゃなく", "の代わりに", "よりも"].iter().any(|word| rest.contains(word));
    let uses = rest.contains("を使って") || rest.contains("を使用して");
    let refuses = rest.contains("使わないで") || rest.contains("使用しないで");
    match (uses || refuses, corrects, compares) {
        (true, true, _) => Some(Heard::new(rest, sure::CORRECTION)),
        (true, _, true) => Some(Heard::new(rest, sure::SHOWN)),
        _ if refuses => Some(Heard::new(rest, sure::SHOWN)),
        (_, true, true) => Some(Heard::new(rest, sure::HEARD)),
        _ => None,
    }
}

fn led<'t>(text: &'t str, lead: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(lead)?;
    let after = rest.trim_start_matches(['、', '，', ',', ' ', '！', '：', ':']);
    let is_joined = lead.ends_with('は') || lead == "今後" || lead == "これから";
    ((after.len() < rest.len() || is_joined) && !after.is_empty()).then_some(after)
}
