//! Lasting rules in Chinese sentences. 总是使用 instructs, 总是报错 describes.

use super::each;
use super::rules::{FoundRule, Leads, Led, Pause};

const LEADS: Leads = Leads {
    plain: ("请|你|您|另外|还有|对了|注意|好的|麻烦|而且|在这个项目里|在这个项目中|我们", Pause::Joined),
    lasting: ("从现在起|从现在开始|从今以后|以后|今后|往后|请记住|记住|记得", Pause::Joined),
    correcting: "不对|不是|错了|不行|不|别这样|不是这样|你错了",
};
const PASSING: &str = "这次|暂时|先不|目前|现在|今天|这一次|还没|临时|这里|这一步";
const POINTING: &str = "这个|那个|它|这样|那样|这些|那些|什么";

/// Verbs that instructions go on with.
const ACTS: &str = "使用|用|采用|运行|执行|写|编写|保持|添加|加|检查|遵循|遵守|提交|放|先|把|将|给|回答|测试|格式化|修改|推送|直接";
/// Subjects of rules.
const ARTIFACTS: &str = "单元测试|集成测试|测试|提交信息|提交|代码|注释|文件|迁移|函数|组件|变量|密码|密钥|分支|日志|文档|接口|依赖";

pub(super) fn rule(text: &str, corrects: bool) -> Option<FoundRule> {
    let Led { rest, corrects, lasts } = LEADS.strip(text, corrects);
    let claim = rest.split(['，', ',']).next().unwrap_or_default();
    let asks = rest.ends_with(['吗', '呢', '么']);
    let recalls = each("了|上次|之前").any(|word| rest.starts_with(word));
    let object = claim.trim_start_matches("使用").trim_start_matches('用');
    let points = each(POINTING).any(|word| object.starts_with(word));
    if asks || recalls || points || rest.chars().count() < 3 || each(PASSING).any(|word| rest.contains(word))
    {
        return None;
    }
    let acts = |text: &str| each(ACTS).any(|act| text.starts_with(act));
    let after = |text: &'_ str, list: &'static str| {
        each(list).find_map(|word| text.strip_prefix(word).map(str::to_owned))
    };
    let demands = |text: &str| {
        let demanded = after(text, "总是|始终|一律|务必|必须|一定要|都要");
        let forbidden = after(text, "永远|绝对|千万|决");
        demanded.is_some_and(|next| acts(&next) || refused(&next).is_some())
            || forbidden.is_some_and(|next| refused(&next).is_some_and(|next| next.chars().count() >= 2))
    };
    let of_artifacts = |text: &str| {
        let rest = after(text, ARTIFACTS);
        rest.is_some_and(|rest| {
            let rest = rest.trim_start_matches('都');
            demands(rest) || refused(rest).is_some()
        })
    };
    if demands(claim)
        || of_artifacts(claim)
        || (lasts && (acts(rest) || refused(rest).is_some() || rest.starts_with('都')))
    {
        return Some(FoundRule::strict(rest));
    }
    if refused(claim)
        .is_some_and(|next| after(next, "用|使用|再用").is_some_and(|what| what.chars().count() >= 2))
    {
        return Some(FoundRule::custom(rest));
    }
    let compares = rest.contains("而不是") || rest.contains("代替");
    let uses = after(rest, "使用|用|应该用|应该使用|要用|改用|采用").is_some();
    // 我们 was stripped as a lead.
    let by_us = text.contains("我们用") || text.contains("我们使用");
    (uses && (compares || corrects || by_us)).then(|| FoundRule::comparison(rest)).flatten()
}

/// Returns the text behind 不要 or 别, unless they begin another word: 不要紧, 别的, 别人.
fn refused(text: &str) -> Option<&str> {
    let rest = each("不要|不能|不得|不可以|禁止|不允许|别").find_map(|word| text.strip_prefix(word))?;
    let others = each("紧|的|人|说了|担心|管|急|忘|再")
        .any(|word| rest.starts_with(word) && !rest.starts_with("再用"));
    (!rest.is_empty() && !others).then_some(rest)
}
