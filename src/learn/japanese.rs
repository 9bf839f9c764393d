//! Lasting rules in Japanese sentences: a request has its own endings; 必ず失敗する describes.

use super::each;
use super::rules::{FoundRule, Leads, Led, Pause};

const LEADS: Leads = Leads {
    plain: ("あと|それと|また|なお|ちなみに|すみません|このプロジェクトでは", Pause::Mark),
    lasting: ("今後は|これからは|次からは|以後は|今後|これから|覚えておいて|原則として", Pause::Joined),
    correcting: "いいえ|いや|違います|違う|ちがう|そうじゃなくて|そうではなく|間違いです|違って",
};
const PASSING: &str = "今回は|今だけ|とりあえず|一旦|いったん|まだ|今日は|今は|この";
const POINTING: &str = "それ|これ|あれ|そっち|こっち|その";

/// Endings of requests.
const ENDS: &str = "ください|下さい|してね|して|使って|しないで|ないで|こと|なさい|お願いします|お願い|ように|置いて|書いて|入れて|付けて|避けて|\
    いけません|いけない|ならない|なりません|禁止|禁止です";

pub(super) fn rule(text: &str, corrects: bool) -> Option<FoundRule> {
    let Led { rest, corrects, lasts } = LEADS.strip(text, corrects);
    let end = rest.trim_end_matches(['ね', 'よ', '！', '!', ' ']);
    let has = |list: &'static str| each(list).any(|word| rest.contains(word));
    let requests = each(ENDS).any(|word| end.ends_with(word));
    let points = each(POINTING).any(|word| rest.starts_with(word));
    if !requests || points || has(PASSING) || rest.chars().count() < 5 {
        return None;
    }
    let forbids =
        each("はいけません|はいけない|はならない|はなりません|禁止|禁止です").any(|word| end.ends_with(word));
    if lasts || forbids || has("常に|必ず|絶対に|いつも|決して|毎回") {
        return Some(FoundRule::strict(rest));
    }
    if has("使わないで|使用しないで|使わないこと|使用しないこと") {
        return Some(FoundRule::custom(rest));
    }
    let uses = has("を使って|を使用して|で実行して");
    let compares = has("ではなく|じゃなく|の代わりに|よりも");
    (uses && (corrects || compares)).then(|| FoundRule::comparison(rest)).flatten()
}
