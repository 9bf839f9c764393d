//! What lasts of a Chinese sentence. 总是报错 describes, 总是使用 instructs.

use super::said::{Heard, Leads, Led};
use super::{each, sure};

const LEADS: Leads = Leads {
    plain: "请|另外|还有|对了|注意|好的|麻烦|而且|在这个项目里",
    lasting: "从现在起|从现在开始|从今以后|以后|今后|往后|请记住|记住|记得",
    correcting: "不对|不是|错了|不行|不|别这样|不是这样|你错了",
    led,
    led_by_no: led_by_pause,
};
const PASSING: &str = "这次|暂时|先不|目前|现在|今天|这一次|还没|临时";

/// What an instruction goes on with.
const ACTS: &str = "使用|用|采用|运行|执行|写|编写|保持|添加|加|检查|遵循|遵守|提交|放|先|把|将|给|回答|测试|格式化|修改|删除|推送|直接";

pub(super) fn heard(text: &str, corrects: bool) -> Option<Heard> {
    let Led { rest, corrects, lasts } = LEADS.strip(text, corrects);
    let asks = rest.ends_with(['吗', '呢', '么']);
    let recalls = rest.starts_with('了') || rest.starts_with("上次") || rest.starts_with("之前");
    if asks || recalls || rest.chars().count() < 3 || each(PASSING).any(|word| rest.contains(word)) {
        return None;
    }
    let acts = |rest: &str| each(ACTS).any(|act| rest.starts_with(act));
    let points = ["这个", "那个", "它", "这样", "那样"]
        .iter()
        .any(|word| rest.trim_start_matches("使用").trim_start_matches('用').starts_with(word));
    if points {
        return None;
    }
    for word in ["总是", "始终", "一律", "务必", "必须", "一定要", "都要"] {
        if let Some(next) = rest.strip_prefix(word)
            && (acts(next) || refuses(next).is_some())
        {
            return Some(Heard::new(rest, sure::RULE));
        }
    }
    for word in ["永远", "绝对", "千万", "决"] {
        if rest.strip_prefix(word).and_then(refuses).is_some_and(|next| next.chars().count() >= 2) {
            return Some(Heard::new(rest, sure::RULE));
        }
    }
    if lasts && (acts(rest) || refuses(rest).is_some() || rest.starts_with("都") || rest.chars().count() >= 6)
    {
        return Some(Heard::new(rest, sure::RULE));
    }
    let compares = rest.contains("而不是") || rest.contains("代替");
    if compares && (acts(rest) || rest.starts_with("应该")) {
        return Some(Heard::new(rest, if corrects { sure::CORRECTION } else { sure::SHOWN }));
    }
    let uses = ["使用", "用", "应该用", "应该使用", "要用", "改用", "我们用", "我们使用", "采用"];
    if corrects && uses.iter().any(|word| rest.starts_with(word)) {
        return Some(Heard::new(rest, sure::CORRECTION));
    }
    if rest.starts_with("改用") || rest.starts_with("我们使用") || rest.starts_with("我们用") {
        return Some(Heard::new(rest, sure::SHOWN));
    }
    let refused = refuses(rest)?;
    let is_use = refused.starts_with('用') || refused.starts_with("使用") || refused.starts_with("再用");
    (is_use && refused.chars().count() >= 2).then(|| Heard::new(rest, sure::SHOWN))
}

/// What follows 不要 or 别, unless it says something else: 不要紧, 别的, 别人.
fn refuses(text: &str) -> Option<&str> {
    let rest =
        ["不要", "不能", "不得", "不可以", "禁止", "别"].iter().find_map(|word| text.strip_prefix(word))?;
    let others = ["紧", "的", "人", "说了", "担心", "管", "急", "忘"];
    (!rest.is_empty() && !others.iter().any(|word| rest.starts_with(word))).then_some(rest)
}

fn led<'t>(text: &'t str, lead: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(lead)?.trim_start_matches(['，', ',', '：', ':', '、', ' ', '！']);
    (!rest.is_empty()).then_some(rest)
}

fn led_by_pause<'t>(text: &'t str, lead: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(lead)?;
    rest.starts_with(['，', ',', '：', ':', ' ', '！', '、']).then(|| led(text, lead)).flatten()
}
