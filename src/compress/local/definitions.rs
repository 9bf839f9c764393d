//! Names of functions and types from single lines of code, by light rules for the common languages. It sees lines and
//! their indentation, never a syntax tree: good enough to tell what a patch touched, and never wrong enough to fail.

use super::place::extension;
use super::text::each;

/// The family of rules that a file's lines are read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    Script,
    Go,
    Ruby,
    Elixir,
    Shell,
    Sql,
    /// C and what descends from it: types before names, braces.
    Braces,
    /// Prose and data, which define nothing.
    None,
}

impl Language {
    /// By the file's extension.
    pub fn of(path: &str) -> Self {
        match extension(path).as_str() {
            "rs" => Self::Rust,
            "py" | "pyi" | "ipynb" => Self::Python,
            "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "vue" | "svelte" => Self::Script,
            "go" => Self::Go,
            "rb" | "rake" => Self::Ruby,
            "ex" | "exs" => Self::Elixir,
            "sh" | "bash" | "zsh" => Self::Shell,
            "sql" => Self::Sql,
            "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" | "java" | "kt" | "kts" | "cs" | "swift"
            | "scala" | "dart" | "php" | "lua" | "zig" | "m" | "mm" | "groovy" => Self::Braces,
            _ => Self::None,
        }
    }

    /// What stands between a type and its function.
    pub fn separator(self) -> &'static str {
        if self == Self::Rust { "::" } else { "." }
    }
}

/// What a line begins to define.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// Its name; of a method whose line names its type, both.
    pub name: String,
    /// Whether it is a type or module: something that has functions rather than is one.
    pub container: bool,
}

impl Definition {
    fn function(name: &str) -> Option<Self> {
        is_name(name).then(|| Self { name: name.to_owned(), container: false })
    }

    fn container(name: &str) -> Option<Self> {
        is_name(name).then(|| Self { name: name.to_owned(), container: true })
    }
}

/// Longer names are data that happens to look like code.
const LONGEST_NAME: usize = 80;

fn is_name(name: &str) -> bool {
    let allowed = |char: char| char.is_alphanumeric() || "_$.:?!".contains(char);
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.chars().all(allowed)
        && !name.starts_with(|char: char| char.is_ascii_digit() || char == '.' || char == ':')
}

/// What the line defines, if anything.
pub(super) fn definition(line: &str, language: Language) -> Option<Definition> {
    if line.len() > 400 {
        return None;
    }
    let line = line.trim();
    match language {
        Language::Rust => rust(line),
        Language::Python => keyword(line, "async", "def", "class"),
        Language::Script => script(line),
        Language::Go => go(line),
        Language::Ruby => keyword(line, "private", "def", "class|module"),
        Language::Elixir => keyword(line, "", "def|defp|defmacro", "defmodule"),
        Language::Shell => shell(line),
        Language::Sql => sql(line),
        Language::Braces => braces(line),
        Language::None => None,
    }
}

/// The name of the innermost function (with its type) or type around a line, given that line's indentation and the
/// lines above it, nearest first.
pub(super) fn enclosing<'l>(
    indent: usize,
    above: impl Iterator<Item = &'l str>,
    language: Language,
) -> Option<Definition> {
    if language == Language::None || indent == 0 {
        return None;
    }
    let mut indent = indent;
    let mut found: Option<Definition> = None;
    // Set where the line that opens a block only ends what began further up: `{`, `) -> T {`.
    let mut continued = false;
    for line in above {
        let trimmed = line.trim();
        let here = indent_of(line);
        let directive = language == Language::Braces && trimmed.starts_with('#');
        if trimmed.is_empty() || directive || here > indent || (here == indent && !continued) {
            continue;
        }
        indent = here;
        continued = trimmed.starts_with([')', '{']) || trimmed.starts_with("where");
        match (definition(line, language), &mut found) {
            (Some(outer), Some(inner)) if outer.container => {
                inner.name = format!("{}{}{}", outer.name, language.separator(), inner.name);
                break;
            }
            (Some(outer), None) => {
                let ends = outer.container || outer.name.contains(language.separator());
                found = Some(outer);
                if ends {
                    break;
                }
            }
            _ => {}
        }
        if indent == 0 && !continued {
            break;
        }
    }
    found
}

/// Leading blanks of a line; a tab is as deep as four.
pub(super) fn indent_of(line: &str) -> usize {
    let mut depth = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => depth += 1,
            b'\t' => depth += 4,
            _ => break,
        }
    }
    depth
}

/// The identifier at the beginning of a text.
fn leading_name(text: &str) -> &str {
    let end =
        text.find(|char: char| !(char.is_alphanumeric() || char == '_' || char == '$')).unwrap_or(text.len());
    &text[..end]
}

/// `[modifier…] keyword name`.
fn keyword(
    line: &str,
    modifiers: &'static str,
    functions: &'static str,
    containers: &'static str,
) -> Option<Definition> {
    let among = |list: &'static str, word: &str| each(list).any(|known| known == word);
    let mut rest = line;
    loop {
        let (word, after) = rest.split_once([' ', '\t'])?;
        let after = after.trim_start();
        let end = after.find(['(', ' ', ':', '<', '[', '{', ',', ';', '\n']).unwrap_or(after.len());
        let name = after[..end].trim_end_matches(['=', ',']);
        if among(functions, word) {
            return Definition::function(name);
        }
        if among(containers, word) {
            return Definition::container(name);
        }
        if !among(modifiers, word) {
            return None;
        }
        rest = after;
    }
}

fn rust(line: &str) -> Option<Definition> {
    let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(rest, |(_, after)| after),
        None => rest,
    });
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<'])) {
        let subject = rest.rsplit_once(" for ").map_or_else(|| after_generics(rest), |(_, subject)| subject);
        return Definition::container(leading_path(subject));
    }
    if let Some(rest) = line.strip_prefix("macro_rules!") {
        return Definition::function(leading_name(rest.trim_start()));
    }
    const MODIFIERS: &str = "const|async|unsafe|extern|\"C\"|default";
    keyword(line, MODIFIERS, "fn", "struct|enum|trait|mod|union|type")
}

fn after_generics(rest: &str) -> &str {
    if !rest.starts_with('<') {
        return rest.trim_start();
    }
    let mut depth = 0;
    for (at, char) in rest.char_indices() {
        match char {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return rest[at + 1..].trim_start();
        }
    }
    rest
}

/// The last name of a path such as `fmt::Display<T>`.
fn leading_path(text: &str) -> &str {
    let text = text.trim_start_matches(['&', ' ']);
    let end =
        text.find(|char: char| !(char.is_alphanumeric() || char == '_' || char == ':')).unwrap_or(text.len());
    text[..end].rsplit("::").next().unwrap_or_default()
}

fn script(line: &str) -> Option<Definition> {
    const MODIFIERS: &str = "export|default|async|declare|abstract";
    const CONTAINERS: &str = "class|interface|enum|namespace|type";
    let plain = line.replace("function*", "function");
    if let Some(found) = keyword(&plain, MODIFIERS, "function", CONTAINERS) {
        return Some(found);
    }
    let rest = line.strip_prefix("export ").unwrap_or(line).trim_start();
    for start in ["const ", "let ", "var "] {
        if let Some(after) = rest.strip_prefix(start) {
            let (name, value) = after.split_once('=')?;
            let value = value.trim_start();
            let is_function = is_arrow(value) || value.starts_with("function") || value.starts_with("async ");
            let opens = value.ends_with('(') && (value.starts_with('(') || value.starts_with("async"));
            return (is_function || opens).then(|| Definition::function(leading_name(name)))?;
        }
    }
    method(line)
}

/// `(a, b) => …`, `a => …`, but not a call that is given one.
fn is_arrow(value: &str) -> bool {
    let Some((parameters, _)) = value.split_once("=>") else { return false };
    let parameters = parameters.trim().trim_start_matches("async").trim_start();
    parameters.starts_with(['(', '<']) || leading_name(parameters) == parameters
}

/// `[modifiers] name(…) {`, as in a class.
fn method(line: &str) -> Option<Definition> {
    if !line.ends_with('{') {
        return None;
    }
    let (head, _) = line.split_once('(')?;
    let name = head.split_whitespace().next_back()?;
    let name = name.split('<').next()?.trim_start_matches('#');
    let words: Vec<&str> = head.split_whitespace().collect();
    let modifiers =
        ["async", "static", "public", "private", "protected", "readonly", "override", "get", "set"];
    let only_modifiers = words[..words.len() - 1].iter().all(|word| modifiers.contains(word));
    (only_modifiers && leading_name(name) == name && !is_statement(name))
        .then(|| Definition::function(name))?
}

fn go(line: &str) -> Option<Definition> {
    let Some(rest) = line.strip_prefix("func ") else {
        let rest = line.strip_prefix("type ")?;
        let (name, after) = rest.split_once(' ')?;
        let is_type = after.starts_with("struct") || after.starts_with("interface");
        return is_type.then(|| Definition::container(leading_name(name)))?;
    };
    let Some(receiver) = rest.strip_prefix('(') else { return Definition::function(leading_name(rest)) };
    let (receiver, after) = receiver.split_once(')')?;
    let of = receiver.split_whitespace().next_back()?.trim_start_matches('*');
    let name = leading_name(after.trim_start());
    (!name.is_empty()).then(|| Definition::function(&format!("{}.{name}", leading_name(of))))?
}

fn shell(line: &str) -> Option<Definition> {
    if let Some(rest) = line.strip_prefix("function ") {
        return Definition::function(rest.split(['(', ' ', '{']).next().unwrap_or_default());
    }
    let (name, after) = line.split_once("()")?;
    (after.trim_start().is_empty() || after.trim_start().starts_with('{'))
        .then(|| Definition::function(name.trim()))?
}

fn sql(line: &str) -> Option<Definition> {
    let words: Vec<&str> = line.split_whitespace().take(10).collect();
    let is = |word: &str, name: &str| word.eq_ignore_ascii_case(name);
    if !words.first().is_some_and(|word| is(word, "create") || is(word, "alter") || is(word, "drop")) {
        return None;
    }
    let kinds = ["table", "view", "function", "procedure", "trigger", "index", "type"];
    let at = words.iter().position(|word| kinds.iter().any(|kind| is(word, kind)))?;
    let skipped = ["if", "not", "exists", "concurrently"];
    let name = words[at + 1..].iter().find(|word| !skipped.iter().any(|skip| is(word, skip)))?;
    Definition::function(name.split('(').next().unwrap_or_default().trim_matches(['"', '`', ';', '[', ']']))
}

/// Words that stand before a parenthesis without being a function.
fn is_statement(word: &str) -> bool {
    const STATEMENTS: &str = "if|for|while|switch|catch|return|else|do|try|new|throw|sizeof|await|function|using|lock|\
        foreach|when|match|synchronized|super|this|defined|assert";
    each(STATEMENTS).any(|known| known == word)
}

fn braces(line: &str) -> Option<Definition> {
    const MODIFIERS: &str = "public|private|protected|internal|static|final|abstract|override|open|sealed|data|inline|\
        suspend|export|local|partial|virtual|async|mutating|pub|fileprivate";
    const CONTAINERS: &str = "class|interface|struct|enum|record|object|trait|protocol|extension|namespace";
    if let Some(found) = keyword(line, MODIFIERS, "fun|func|function|fn|def|sub", CONTAINERS) {
        return Some(found);
    }
    let (head, after) = line.split_once('(')?;
    // A declaration, a call or a condition: ends in `;`, assigns, or has nothing that could be a type.
    if line.ends_with(';') || line.ends_with(',') || head.contains(['=', '"', '\'', '#', '@', '.', '+', '!'])
    {
        return None;
    }
    let opens = after.ends_with('{') || after.ends_with(')') || after.ends_with("const");
    let mut words = head.split_whitespace().rev();
    let name = words.next()?.trim_start_matches(['*', '&']);
    let typed = words.next().is_some_and(|word| !is_statement(word)) || name.contains("::");
    (opens && typed && !is_statement(name)).then(|| Definition::function(name))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(line: &str, path: &str) -> String {
        definition(line, Language::of(path)).map(|found| found.name).unwrap_or_default()
    }

    #[test]
    fn definitions_are_recognised_in_the_common_languages() {
        for (line, path, expected) in [
            ("pub(crate) async fn send<T>(&self) -> Result<T> {", "a.rs", "send"),
            ("impl<T: Clone> fmt::Display for Wrapper<T> {", "a.rs", "Wrapper"),
            ("impl Queue {", "a.rs", "Queue"),
            ("pub struct Turn {", "a.rs", "Turn"),
            ("    async def fetch(self, url):", "a.py", "fetch"),
            ("class Greeter(Base):", "a.py", "Greeter"),
            ("export default async function load(id: string) {", "a.ts", "load"),
            ("export const useUser = (id: string) => {", "a.tsx", "useUser"),
            ("  private async retry<T>(job: Job): Promise<T> {", "a.ts", "retry"),
            ("func (s *Server) Start(ctx context.Context) error {", "a.go", "Server.Start"),
            ("func main() {", "a.go", "main"),
            ("type Server struct {", "a.go", "Server"),
            ("  public static int parseAge(String text) throws X {", "A.java", "parseAge"),
            ("fun greet(name: String): String = \"hi\"", "a.kt", "greet"),
            ("static int parse_header(const char *text, size_t length)", "a.c", "parse_header"),
            ("void Parser::reset() {", "a.cpp", "Parser::reset"),
            ("  def self.build(options = {})", "a.rb", "self.build"),
            ("defp normalise(text) do", "a.ex", "normalise"),
            ("deploy() {", "a.sh", "deploy"),
            ("CREATE TABLE IF NOT EXISTS users (", "a.sql", "users"),
            ("public function handle(Request $request): Response", "a.php", "handle"),
            ("local function step(dt)", "a.lua", "step"),
        ] {
            assert_eq!(name(line, path), expected, "{line}");
        }
    }

    #[test]
    fn other_lines_define_nothing() {
        for (line, path) in [
            ("    if (ready) {", "a.ts"),
            ("    } else if (ready) {", "a.java"),
            ("const limit = 5;", "a.ts"),
            ("const known = this.items.find((other) => other.id === id);", "a.ts"),
            ("    return parse(text);", "a.c"),
            ("let total = items.iter().map(f).sum();", "a.rs"),
            ("defaults = load()", "a.py"),
            ("printf(\"class %s\", name);", "a.c"),
            ("# class of its own", "README.md"),
            ("new Promise((resolve) => {", "a.ts"),
            ("while (true)", "a.java"),
        ] {
            assert_eq!(name(line, path), "", "{line}");
        }
    }

    fn around(code: &str, line: usize, path: &str) -> String {
        let lines: Vec<&str> = code.lines().collect();
        let above = lines[..line].iter().rev().copied();
        enclosing(indent_of(lines[line]), above, Language::of(path))
            .map(|found| found.name)
            .unwrap_or_default()
    }

    #[test]
    fn the_enclosing_function_is_found_by_indentation() {
        let rust = "impl Queue {\n    fn a() {}\n\n    fn push(\n        &mut self,\n    ) -> bool {\n        if x {\n            y();\n        }\n    }\n}";
        assert_eq!(around(rust, 7, "q.rs"), "Queue::push");
        let python = "class A:\n    def f(self):\n        x = 1\n\n        return x\n\ndef g():\n    pass";
        assert_eq!(around(python, 4, "a.py"), "A.f");
        assert_eq!(around(python, 7, "a.py"), "g");
        let c = "static int\nmain(int argc)\n{\n    int x;\n    return 0;\n}";
        assert_eq!(around(c, 4, "a.c"), "");
        let next_line = "int parse(char *text)\n{\n    return 0;\n}";
        assert_eq!(around(next_line, 2, "a.c"), "parse");
        let go = "func (s *Server) Start() {\n\tfor {\n\t\ts.step()\n\t}\n}";
        assert_eq!(around(go, 2, "a.go"), "Server.Start");
        assert_eq!(around("a: 1\nb:\n  c: 2", 2, "a.yaml"), "");
    }
}
