//! Changes one setting in the user's file and leaves every other byte as it is.

use toml::de::DeTable;

/// Returns the text with a key set to a value in TOML. Sets it where it is set already, else below its commented default,
/// else below the header of its section, else in a new section at the end.
pub fn set(text: &str, section: &str, key: &str, value: &str) -> String {
    if let Some((_, range)) = places(text, section, key) {
        return format!("{}{value}{}", &text[..range.start], &text[range.end..]);
    }
    let line = format!("{key} = {value}\n");
    match insertion(text, section, key) {
        Some(at) => format!("{}{line}{}", with_newline(&text[..at]), &text[at..]),
        None => {
            let gap = if text.is_empty() { "" } else { "\n" };
            format!("{}{gap}[{section}]\n{line}", with_newline(text))
        }
    }
}

/// Returns the text without a key; none if it is not set.
pub fn unset(text: &str, section: &str, key: &str) -> Option<String> {
    let (name, value) = places(text, section, key)?;
    let start = text[..name].rfind('\n').map_or(0, |end| end + 1);
    let end = text[value.end..].find('\n').map_or(text.len(), |end| value.end + end + 1);
    Some(format!("{}{}", &text[..start], &text[end..]))
}

/// The offset of a key that is set, and the range of its value.
fn places(text: &str, section: &str, key: &str) -> Option<(usize, std::ops::Range<usize>)> {
    let parsed = DeTable::parse(text).ok()?;
    let table = parsed.get_ref().get(section)?.get_ref().as_table()?;
    let (name, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    Some((name.span().start, value.span()))
}

/// The offset of the line at which a new key belongs.
fn insertion(text: &str, section: &str, key: &str) -> Option<usize> {
    let mut at = 0;
    let mut found = None;
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let line = line.trim();
        if line.starts_with('[') {
            is_inside = line == format!("[{section}]");
            if is_inside {
                found = Some(at);
            }
        }
        let commented = line.strip_prefix('#').map(str::trim_start).and_then(|line| line.strip_prefix(key));
        if is_inside && commented.is_some_and(|rest| rest.trim_start().starts_with('=')) {
            return Some(at);
        }
    }
    found
}

fn with_newline(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\n[compress]\n# The model.\n#model = \"haiku\"\nprovider = \"auto\"  # for now\n\n[hook]\n#busy_ms = 250\n";

    #[test]
    fn a_key_is_set_where_people_would_set_it() {
        let changed = set(FILE, "compress", "provider", "\"local\"");
        assert_eq!(changed, FILE.replace("\"auto\"", "\"local\""));
        let added = set(FILE, "compress", "model", "\"opus\"");
        assert_eq!(added, FILE.replace("\"haiku\"\n", "\"haiku\"\nmodel = \"opus\"\n"));
        let below_header = set(FILE, "hook", "synchronous", "\"full\"");
        assert_eq!(below_header, FILE.replace("[hook]\n", "[hook]\nsynchronous = \"full\"\n"));
        assert_eq!(set(FILE, "queue", "max", "3"), format!("{FILE}\n[queue]\nmax = 3\n"));
        assert_eq!(set("", "queue", "max", "3"), "[queue]\nmax = 3\n");
        assert_eq!(set("[queue]", "queue", "max", "3"), "[queue]\nmax = 3\n");
    }

    #[test]
    fn unsetting_removes_the_line_and_nothing_else() {
        let expected = FILE.replace("provider = \"auto\"  # for now\n", "");
        assert_eq!(unset(FILE, "compress", "provider").as_deref(), Some(expected.as_str()));
        assert_eq!(unset(FILE, "compress", "model"), None);
        let long = "[capture]\nskip_tools = [\n  \"a\",\n]\nx = 1\n";
        assert_eq!(unset(long, "capture", "skip_tools").as_deref(), Some("[capture]\nx = 1\n"));
    }
}
