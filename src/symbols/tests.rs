//! Realistic files of every language, before and after an edit: `tests/fixtures/symbols`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const EXTENSIONS: [&str; 11] = ["rs", "py", "ts", "tsx", "js", "go", "java", "c", "cpp", "rb", "cs"];

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/symbols");
    fs::read_to_string(folder.join(name)).unwrap()
}

fn pair(extension: &str) -> (Language, String, String) {
    let language = language_of(&format!("file.{extension}")).unwrap();
    (language, fixture(&format!("before.{extension}")), fixture(&format!("after.{extension}")))
}

/// The symbols before, and what became of them.
fn story(extension: &str) -> String {
    let (language, before, after) = pair(extension);
    let (before, after) = (symbols(language, &before).unwrap(), symbols(language, &after).unwrap());
    let mut story = String::new();
    for symbol in &before {
        let Symbol { qualified_name, kind, signature, line_start, line_end, .. } = symbol;
        writeln!(story, "{line_start:3}-{line_end:<3} {:9} {qualified_name} | {signature}", kind.as_str())
            .unwrap();
    }
    story.push('\n');
    for SymbolChange { symbol, change, renamed_from } in compare(&before, &after) {
        let from = renamed_from.map(|name| format!(" (was {name})")).unwrap_or_default();
        let Symbol { qualified_name, kind, line_start, line_end, .. } = symbol;
        let change = change.as_str();
        writeln!(story, "{change:8} {line_start:3}-{line_end:<3} {:9} {qualified_name}{from}", kind.as_str())
            .unwrap();
    }
    story
}

/// What happened, in short: `new Cache::get`.
fn told(changes: &[SymbolChange]) -> Vec<String> {
    let tell = |change: &SymbolChange| {
        let from = change.renamed_from.as_ref().map(|name| format!(" from {name}")).unwrap_or_default();
        format!("{} {}{from}", change.change.as_str(), change.symbol.qualified_name)
    };
    changes.iter().map(tell).collect()
}

fn names(language: Language, source: &str) -> Vec<String> {
    symbols(language, source).unwrap().into_iter().map(|symbol| symbol.qualified_name).collect()
}

#[test]
fn rust_before_and_after() {
    insta::assert_snapshot!(story("rs"));
}

#[test]
fn python_before_and_after() {
    insta::assert_snapshot!(story("py"));
}

#[test]
fn typescript_before_and_after() {
    insta::assert_snapshot!(story("ts"));
}

#[test]
fn tsx_before_and_after() {
    insta::assert_snapshot!(story("tsx"));
}

#[test]
fn javascript_before_and_after() {
    insta::assert_snapshot!(story("js"));
}

#[test]
fn go_before_and_after() {
    insta::assert_snapshot!(story("go"));
}

#[test]
fn java_before_and_after() {
    insta::assert_snapshot!(story("java"));
}

#[test]
fn c_before_and_after() {
    insta::assert_snapshot!(story("c"));
}

#[test]
fn cpp_before_and_after() {
    insta::assert_snapshot!(story("cpp"));
}

#[test]
fn ruby_before_and_after() {
    insta::assert_snapshot!(story("rb"));
}

#[test]
fn csharp_before_and_after() {
    insta::assert_snapshot!(story("cs"));
}

#[test]
fn the_short_way_tells_the_same_as_the_long_one() {
    for extension in EXTENSIONS {
        let (language, before, after) = pair(extension);
        let long = compare(&symbols(language, &before).unwrap(), &symbols(language, &after).unwrap());
        assert_eq!(changes(language, Some(&before), &after), Some(long), "{extension}");
    }
}

#[test]
fn a_file_that_was_not_there_has_only_new_symbols() {
    for extension in EXTENSIONS {
        let (language, before, _) = pair(extension);
        let changes = changes(language, None, &before).unwrap();
        assert_eq!(changes.len(), symbols(language, &before).unwrap().len());
        assert!(changes.iter().all(|change| change.change == Change::New));
    }
}

#[test]
fn neither_line_ends_nor_indentation_nor_comments_between_symbols_change_anything() {
    for extension in EXTENSIONS {
        let (language, before, _) = pair(extension);
        let windows_lines = before.replace('\n', "\r\n");
        let tabs = before.replace("    ", "\t");
        for other in [windows_lines, tabs] {
            assert_eq!(told(&changes(language, Some(&before), &other).unwrap()), [""; 0], "{extension}");
        }
    }
    let commented = "class A {\n  // one\n  void f() {}\n  // two\n  void g() {}\n}";
    let plain = "class A {\n  void f() {}\n  void g() {}\n}";
    assert_eq!(told(&changes(Language::Java, Some(commented), plain).unwrap()), [""; 0]);
}

#[test]
fn the_order_of_symbols_does_not_matter() {
    let before = "fn a() { one(); }\nfn b() { two(); }\nstruct C;\n";
    let after = "struct C;\n\nfn b() { two(); }\n\nfn a() { one(); }\n";
    assert_eq!(told(&changes(Language::Rust, Some(before), after).unwrap()), [""; 0]);
}

#[test]
fn a_new_name_is_one_change_even_where_the_function_calls_itself() {
    let before = "def walk(tree):\n    return [walk(child) for child in tree]\n";
    let after = "def visit(tree):\n    return [visit(child) for child in tree]\n";
    assert_eq!(told(&changes(Language::Python, Some(before), after).unwrap()), ["modified visit from walk"]);
}

#[test]
fn a_new_name_and_a_new_body_with_the_same_parameters_is_one_change() {
    let before = "func Load(path string, limit int) error {\n\treturn nil\n}\n";
    let after = "func LoadAll(path string, limit int) error {\n\treturn open(path)\n}\n";
    assert_eq!(told(&changes(Language::Go, Some(before), after).unwrap()), ["modified LoadAll from Load"]);
    let before = "package a\nfunc Load() error {\n\treturn nil\n}\n";
    let after = "package a\nfunc Save() error {\n\treturn open()\n}\n";
    let nothing_in_common = changes(Language::Go, Some(before), after).unwrap();
    assert_eq!(told(&nothing_in_common), ["deleted Load", "new Save"]);
}

#[test]
fn a_method_that_moved_to_another_class_says_from_where() {
    let before = "class A {\n  run(x: number) { return x + 1; }\n}\nclass B {\n  stop() {}\n}\n";
    let after = "class A {\n}\nclass B {\n  stop() {}\n  run(x: number) { return x + 1; }\n}\n";
    assert_eq!(
        told(&changes(Language::TypeScript, Some(before), after).unwrap()),
        ["modified B.run from A.run"]
    );
}

#[test]
fn a_renamed_type_takes_its_members_along() {
    let before = "struct Old { a: u8 }\nimpl Old { fn new() -> Old { Old { a: 0 } } fn get(&self) -> u8 { self.a } }\n\
                  impl Clone for Old { fn clone(&self) -> Self { Old { a: self.a } } }\n";
    let after = before.replace("Old", "New");
    assert_eq!(told(&changes(Language::Rust, Some(before), &after).unwrap()), ["modified New from Old"]);
}

#[test]
fn an_overload_that_changes_leaves_the_others_alone() {
    let before = "class A { void f(int a) { one(); } void f(long a) { two(); } void f(char a) { three(); } }";
    let after = "class A { void f(int a) { one(); } void f(long a) { six(); } void f(char a) { three(); } }";
    let changes = changes(Language::Java, Some(before), after).unwrap();
    assert_eq!(told(&changes), ["modified A.f"]);
    assert_eq!(changes[0].symbol.signature, "void f(long a)");
}

#[test]
fn functions_without_a_name_and_functions_in_functions_are_no_symbols() {
    assert_eq!(
        names(Language::JavaScript, "[1].map(x => x); (function () {})(); setTimeout(() => {});"),
        [""; 0]
    );
    assert_eq!(
        names(Language::Python, "def f():\n    def g():\n        pass\n    return lambda: g\n"),
        ["f"]
    );
    assert_eq!(names(Language::Rust, "fn f() { fn g() {} let h = || 1; }"), ["f"]);
    assert_eq!(names(Language::Go, "package a\nfunc f() { g := func() {}; g() }\n"), ["f"]);
}

#[test]
fn less_usual_declarations_are_found_under_the_usual_names() {
    for (language, source, expected) in [
        (
            Language::Rust,
            "extern \"C\" { fn f(a: i32); }\nmod a { pub mod b { pub fn g() {} } }",
            "f a::b::g",
        ),
        (
            Language::Rust,
            "impl<T> fmt::Display for a::B<T> { fn fmt(&self) {} }",
            "<a::B as fmt::Display>::fmt",
        ),
        (
            Language::Python,
            "if sys.version:\n    def f(): pass\nelse:\n    class C:\n        async def g(self): pass\n",
            "f C C.g",
        ),
        (Language::JavaScript, "module.exports = { a() {}, 'b-c': function () {}, d: 1 };", "a b-c"),
        (Language::JavaScript, "export default () => 1;", "default"),
        (Language::JavaScript, "const a = () => 1, b = function () {}, c = class { d() {} };", "a b c c.d"),
        (Language::TypeScript, "export default class { run() {} }", "default default.run"),
        (Language::TypeScript, "declare module 'x' { export function f(): void; }", "x.f"),
        (Language::TypeScript, "export const a = { b: { c() {} } } satisfies D;", "a.b.c"),
        (Language::Go, "package a\nfunc (List[T]) Len() int { return 0 }\ntype A = B\n", "List.Len A"),
        (Language::Java, "interface A { default void f() {} enum B { X; void g() {} } }", "A A.f A.B A.B.g"),
        (
            Language::C,
            "typedef struct { int a; } point_t;\nint (*handler)(int);\nint f(void);\n",
            "point_t f",
        ),
        (Language::C, "static inline int\nf(int a)\n{\n  return a;\n}\n", "f"),
        (
            Language::Cpp,
            "namespace a::b { struct S { S(); ~S(); operator bool() const; static int n; }; }",
            "a::b::S a::b::S::S a::b::S::~S a::b::S::operator bool",
        ),
        (Language::Cpp, "namespace { int f() { return 1; } }\nvoid A::B<int>::g(int) const {}", "f A::B::g"),
        (
            Language::Ruby,
            "class A\n  private def f; end\n  def self.g; end\n  def h=(x); end\nend\n",
            "A A#f A.g A#h=",
        ),
        (
            Language::CSharp,
            "namespace A;\nclass B { public int C => 1; int D { get; set; } ~B() { } }",
            "B B.C B.~B",
        ),
        (Language::CSharp, "int Twice(int a) => 2 * a;\nConsole.WriteLine(Twice(1));", "Twice"),
    ] {
        assert_eq!(names(language, source).join(" "), expected, "{language:?}: {source}");
    }
}

#[test]
fn a_signature_is_one_bounded_line_and_is_not_cut_inside_a_character() {
    let long = "ü".repeat(300);
    let source = format!("fn f(\n    {long}: u8,\n    b: u8,\n) -> u8 {{ 1 }}");
    let signature = symbols(Language::Rust, &source).unwrap().remove(0).signature;
    assert_eq!(signature.chars().count(), 160);
    assert!(signature.starts_with("fn f(üü") && signature.ends_with('…'));
    let short =
        symbols(Language::Rust, "pub(crate) fn f<T>(\n\tself,\n\ta: Vec<T>,\n) -> Vec<T>\nwhere T: A, {}");
    assert_eq!(short.unwrap()[0].signature, "pub(crate) fn f<T>(self, a: Vec<T>,) -> Vec<T> where T: A");
}

#[test]
fn names_and_texts_beyond_ascii_are_kept_whole() {
    let source =
        "def größe(größe_größe='日本'):\n    return '🚀'\n\nclass Ünïcode:\n    def 取得(self): pass\n";
    assert_eq!(names(Language::Python, source), ["größe", "Ünïcode", "Ünïcode.取得"]);
    let renamed = source.replace("def größe(", "def weite(");
    let changes = changes(Language::Python, Some(source), &renamed).unwrap();
    assert_eq!(told(&changes), ["modified weite from größe"]);
}

#[test]
fn a_file_that_does_not_parse_gives_nothing() {
    for (language, source) in [
        (Language::Rust, "fn a() {\n    one();\n\nfn b() {\n    two();\n}\n"),
        (Language::Rust, "fn a() {}\n}\nfn b() {}\n"),
        (Language::Python, "def a(:\n    pass\n"),
        (Language::TypeScript, "export class A {\n  f() {\n}\nexport class B { g() {} }\n"),
        (Language::Java, "class A { void f() { if (x) { } void g() { } }"),
        (Language::Go, "package a\nfunc f() {\n"),
        (Language::Ruby, "class A\n  def f\n  end\n"),
        (Language::CSharp, "class A { void F() { }"),
        (Language::C, "int f(void) {\n"),
        (Language::Rust, "<html><body>this is not Rust</body></html>"),
    ] {
        assert_eq!(symbols(language, source), None, "{language:?}: {source}");
    }
}

#[test]
fn a_small_error_inside_a_function_is_tolerated_but_not_one_that_the_edit_made() {
    let filler = "fn g() { let a = [1, 2, 3]; a.iter().map(|x| x + 1).sum::<i32>(); }\n".repeat(5);
    let whole = format!("fn f() {{ let a = 1; }}\n{filler}");
    let broken = format!("fn f() {{ let a = @; }}\n{filler}");
    let other = format!("fn f() {{ let a = @; }}\n{filler}fn h() {{}}\n");
    assert_eq!(symbols(Language::Rust, &broken).unwrap().len(), 6);
    assert_eq!(changes(Language::Rust, Some(&whole), &broken), None);
    assert_eq!(told(&changes(Language::Rust, Some(&broken), &other).unwrap()), ["new h"]);
}

#[test]
fn macros_that_only_the_compiler_understands_do_not_hide_a_c_file() {
    let source = "MODULE_LICENSE(\"GPL\")\nstatic int __init f(void)\n{\n\treturn 0;\n}\nint g(int a) { return a; }\n\
                  int h(int a) { return g(a); }\nint i(int a) { return h(a) + g(a) + f(); }\n";
    let found = names(Language::C, source);
    assert!(found.ends_with(&["g".to_owned(), "h".to_owned(), "i".to_owned()]), "{found:?}");
}

#[test]
fn a_file_over_the_limit_gives_nothing() {
    let long = "fn a() {}\n".repeat(MAX_SOURCE_BYTES / 10 + 1);
    assert_eq!(symbols(Language::Rust, &long), None);
    assert_eq!(changes(Language::Rust, Some("fn a() {}"), &long), None);
    assert_eq!(changes(Language::Rust, Some(&long), "fn a() {}"), None);
}

#[test]
fn nesting_without_end_is_survived() {
    for (language, opening) in [
        (Language::Rust, "mod a { "),
        (Language::Cpp, "namespace a { "),
        (Language::Java, "class A { "),
        (Language::JavaScript, "x = { a: "),
        (Language::JavaScript, "x = (("),
        (Language::Python, "class A:"),
        (Language::C, "int (*("),
    ] {
        let _ = symbols(language, &opening.repeat(20_000));
    }
}

/// For each language a file of many classes and functions, in which every name occurs once.
static LARGE: LazyLock<Vec<String>> = LazyLock::new(|| EXTENSIONS.map(large).into());

fn large(extension: &str) -> String {
    let (language, text, _) = pair(extension);
    let is_head = |line: &&str| line.starts_with("package ");
    let head: String = text.split_inclusive('\n').filter(is_head).collect();
    let body: String = text.split_inclusive('\n').filter(|line| !is_head(line)).collect();
    let copies = 20_000 / body.len();
    (0..copies).fold(head, |all, number| all + &renamed(language, &body, number) + "\n")
}

/// The text with a number behind every name that it declares.
fn renamed(language: Language, text: &str, number: usize) -> String {
    let declared: BTreeSet<String> = symbols(language, text)
        .unwrap()
        .iter()
        .map(|symbol| symbol.name().trim_start_matches(['~', '#']).to_owned())
        .filter(|name| name.chars().all(is_word) && name != "constructor")
        .collect();
    let mut renamed = String::new();
    for word in text.split_inclusive(|character| !is_word(character)) {
        let name = word.trim_end_matches(|character| !is_word(character));
        let number = if declared.contains(name) { number.to_string() } else { String::new() };
        renamed += &format!("{name}{number}{}", &word[name.len()..]);
    }
    renamed
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// An edit of some lines: one taken out, doubled or changed, a letter more in one, or a paragraph doubled or taken out.
fn edited(text: &str, at: usize, how: usize) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let at = at % lines.len();
    let start = (0..=at).rev().find(|line| lines[*line].trim().is_empty()).unwrap_or(0);
    let end = (at + 1..lines.len()).find(|line| lines[*line].trim().is_empty()).unwrap_or(lines.len());
    match how {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => lines[at] = lines[at].replacen('a', "ab", 1),
        3 => {
            let doubled: Vec<_> = lines[start..end].iter().map(|line| line.replacen('e', "ee", 1)).collect();
            lines.splice(end..end, doubled);
        }
        4 => drop(lines.drain(start..end)),
        _ => {
            let letters: Vec<_> = lines[at].match_indices(char::is_alphabetic).map(|(at, _)| at).collect();
            if let Some(place) = letters.get(how % letters.len().max(1)) {
                lines[at].insert(*place, 'x');
            }
        }
    }
    lines.join("\n")
}

#[test]
fn an_edit_in_one_function_of_a_large_file_needs_only_a_part_of_it() {
    for (extension, before) in EXTENSIONS.iter().zip(LARGE.iter()) {
        let language = language_of(&format!("file.{extension}")).unwrap();
        let found = symbols(language, before).unwrap();
        let mut later = found[found.len() / 2..].iter();
        let function = later
            .find(|symbol| !symbol.kind.has_members() && symbol.line_end > symbol.line_start + 1)
            .unwrap();
        let mut lines: Vec<String> = before.lines().map(str::to_owned).collect();
        lines[function.line_end as usize - 2] +=
            if matches!(*extension, "py" | "rb") { " # x" } else { " // x" };
        let after = lines.join("\n") + "\n";
        let partly = changes_in_parts(language, before, &after, Edit::between(before, &after));
        let expected = format!("modified {}", function.qualified_name);
        assert_eq!(partly.map(|changes| told(&changes)), Some(vec![expected]), "{extension}");
    }
}

fn partly(extension: &str, edit: impl Fn(&str) -> String) -> Option<Vec<String>> {
    let language = language_of(&format!("file.{extension}")).unwrap();
    let before = &LARGE[EXTENSIONS.iter().position(|one| *one == extension).unwrap()];
    let after = edit(before);
    let changes = changes_in_parts(language, before, &after, Edit::between(before, &after));
    changes.map(|changes| told(&changes))
}

#[test]
fn a_part_is_enough_for_what_comes_last_before_the_end_of_a_condition_or_a_namespace() {
    let added =
        |before: &str, end: &str, function: &str| before.replacen(end, &format!("{function}{end}"), 1);
    let in_guard =
        partly("c", |before| added(before, "\n#endif", "\nint brand_new(void)\n{\n    return 1;\n}\n"));
    assert_eq!(in_guard, Some(vec!["new brand_new".to_owned()]));
    let in_namespace = partly("cpp", |before| {
        added(before, "}  // namespace mesh", "int brand_new() {\n    return 1;\n}\n\n")
    });
    assert_eq!(in_namespace, Some(vec!["new mesh::brand_new".to_owned()]));
}

#[test]
fn a_part_is_enough_for_what_a_type_says_itself() {
    let field = partly("cpp", |before| before.replacen("N> values_;", "N> numbers_;", 1));
    assert_eq!(field, Some(vec!["modified mesh::Vector0".to_owned()]));
    let name = partly("js", |before| before.replacen("class Store3 {", "class Shop3 {", 1));
    // The second calls it by its name.
    let expected = ["modified Shop3 from Store3", "modified Shop3.open3"].map(str::to_owned);
    assert_eq!(name, Some(expected.into()));
}

#[test]
fn a_type_whose_methods_stand_elsewhere_is_looked_up_in_all_of_the_file() {
    let before = &LARGE[0];
    let name =
        symbols(Language::Rust, before).unwrap().into_iter().find(|symbol| symbol.kind == SymbolKind::Struct);
    let name = name.unwrap().qualified_name;
    let after = before.replacen(&format!("struct {name}"), "struct Other", 1);
    let edit = Edit::between(before, &after);
    assert_eq!(changes_in_parts(Language::Rust, before, &after, edit), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_part_of_a_large_file_tells_the_same_as_all_of_it(which in 0..EXTENSIONS.len(), at in 0_usize..10_000, how in 0_usize..40) {
        let language = language_of(&format!("file.{}", EXTENSIONS[which])).unwrap();
        let before = &LARGE[which];
        let after = edited(before, at, how);
        let edit = Edit::between(before, &after);
        if let Some(partly) = changes_in_parts(language, before, &after, edit) {
            prop_assert_eq!(Some(partly), changes_in_all(language, before, &after, edit));
        }
    }

    #[test]
    fn no_text_is_too_strange(which in 0..Language::ALL.len(), before in "(?s).{0,200}", after in "(?s).{0,200}") {
        let language = Language::ALL[which];
        let _ = symbols(language, &before);
        let _ = changes(language, Some(&before), &after);
    }

    #[test]
    fn no_torn_file_is_too_strange(which in 0..EXTENSIONS.len(), from in 0_usize..2000, length in 0_usize..2000, junk in "(?s).{0,12}") {
        let (language, before, _) = pair(EXTENSIONS[which]);
        let torn: String = before.chars().skip(from).take(length).chain(junk.chars()).collect();
        for symbol in symbols(language, &torn).unwrap_or_default() {
            prop_assert!(symbol.line_start <= symbol.line_end && !symbol.qualified_name.is_empty());
            prop_assert!(symbol.signature.chars().count() <= 160 && !symbol.signature.contains('\n'));
        }
        let _ = changes(language, Some(&before), &torn);
    }
}
