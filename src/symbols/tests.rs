//! Realistic files of every language, before and after an edit: `tests/fixtures/symbols`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

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

/// All symbols of a file, in file order. `None` if it does not parse or is too large.
fn symbols(language: Language, source: &str) -> Option<Vec<Symbol>> {
    let tree = parse::parse(language, source).filter(|tree| parse::is_sound(language, tree))?;
    Some(outline::outline(language, tree.root_node(), source))
}

/// Renders the symbols before the edit, and the changes.
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

/// Renders the changes in short form: `new Cache::get`.
fn render(changes: &[SymbolChange]) -> Vec<String> {
    let line = |change: &SymbolChange| {
        let from = change.renamed_from.as_ref().map(|name| format!(" from {name}")).unwrap_or_default();
        format!("{} {}{from}", change.change.as_str(), change.symbol.qualified_name)
    };
    changes.iter().map(line).collect()
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
fn changes_equal_a_comparison_of_both_outlines() {
    for extension in EXTENSIONS {
        let (language, before, after) = pair(extension);
        let long = compare(&symbols(language, &before).unwrap(), &symbols(language, &after).unwrap());
        assert_eq!(changes(language, Some(&before), &after), Some(long), "{extension}");
    }
}

#[test]
fn a_new_file_has_only_new_symbols() {
    for extension in EXTENSIONS {
        let (language, before, _) = pair(extension);
        let changes = changes(language, None, &before).unwrap();
        assert_eq!(changes.len(), symbols(language, &before).unwrap().len());
        assert!(changes.iter().all(|change| change.change == Change::New));
    }
}

#[test]
fn whitespace_and_comments_between_symbols_are_no_change() {
    for extension in EXTENSIONS {
        let (language, before, _) = pair(extension);
        let windows_lines = before.replace('\n', "\r\n");
        let tabs = before.replace("    ", "\t");
        for other in [windows_lines, tabs] {
            assert_eq!(render(&changes(language, Some(&before), &other).unwrap()), [""; 0], "{extension}");
        }
    }
    let commented = "class A {\n  // one\n  void f() {}\n  // two\n  void g() {}\n}";
    let plain = "class A {\n  void f() {}\n  void g() {}\n}";
    assert_eq!(render(&changes(Language::Java, Some(commented), plain).unwrap()), [""; 0]);
}

#[test]
fn the_order_of_symbols_does_not_matter() {
    let before = "fn a() { one(); }\nfn b() { two(); }\nstruct C;\n";
    let after = "struct C;\n\nfn b() { two(); }\n\nfn a() { one(); }\n";
    assert_eq!(render(&changes(Language::Rust, Some(before), after).unwrap()), [""; 0]);
}

#[test]
fn renaming_a_recursive_function_is_one_change() {
    let before = "def walk(tree):\n    return [walk(child) for child in tree]\n";
    let after = "def visit(tree):\n    return [visit(child) for child in tree]\n";
    assert_eq!(
        render(&changes(Language::Python, Some(before), after).unwrap()),
        ["modified visit from walk"]
    );
}

#[test]
fn a_rename_with_the_same_parameters_is_one_change() {
    let before = "func Load(path string, limit int) error {\n\treturn nil\n}\n";
    let after = "func LoadAll(path string, limit int) error {\n\treturn open(path)\n}\n";
    assert_eq!(render(&changes(Language::Go, Some(before), after).unwrap()), ["modified LoadAll from Load"]);
    let before = "package a\nfunc Load() error {\n\treturn nil\n}\n";
    let after = "package a\nfunc Save() error {\n\treturn open()\n}\n";
    let nothing_in_common = changes(Language::Go, Some(before), after).unwrap();
    assert_eq!(render(&nothing_in_common), ["deleted Load", "new Save"]);
}

#[test]
fn a_method_moved_to_another_class_keeps_its_old_name() {
    let before = "class A {\n  run(x: number) { return x + 1; }\n}\nclass B {\n  stop() {}\n}\n";
    let after = "class A {\n}\nclass B {\n  stop() {}\n  run(x: number) { return x + 1; }\n}\n";
    assert_eq!(
        render(&changes(Language::TypeScript, Some(before), after).unwrap()),
        ["modified B.run from A.run"]
    );
}

#[test]
fn members_of_a_renamed_type_are_unchanged() {
    let before = "struct Old { a: u8 }\nimpl Old { fn new() -> Old { Old { a: 0 } } fn get(&self) -> u8 { self.a } }\n\
                  impl Clone for Old { fn clone(&self) -> Self { Old { a: self.a } } }\n";
    let after = before.replace("Old", "New");
    assert_eq!(render(&changes(Language::Rust, Some(before), &after).unwrap()), ["modified New from Old"]);
}

#[test]
fn changing_an_overload_leaves_the_others_unchanged() {
    let before = "class A { void f(int a) { one(); } void f(long a) { two(); } void f(char a) { three(); } }";
    let after = "class A { void f(int a) { one(); } void f(long a) { six(); } void f(char a) { three(); } }";
    let changes = changes(Language::Java, Some(before), after).unwrap();
    assert_eq!(render(&changes), ["modified A.f"]);
    assert_eq!(changes[0].symbol.signature, "void f(long a)");
}

#[test]
fn anonymous_and_nested_functions_are_no_symbols() {
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
fn unusual_declarations_have_regular_names() {
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
fn a_signature_is_one_bounded_line_of_whole_characters() {
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
fn non_ascii_names_are_kept_whole() {
    let source =
        "def größe(größe_größe='日本'):\n    return '🚀'\n\nclass Ünïcode:\n    def 取得(self): pass\n";
    assert_eq!(names(Language::Python, source), ["größe", "Ünïcode", "Ünïcode.取得"]);
    let renamed = source.replace("def größe(", "def weite(");
    let changes = changes(Language::Python, Some(source), &renamed).unwrap();
    assert_eq!(render(&changes), ["modified weite from größe"]);
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
fn a_small_old_parse_error_is_tolerated_but_not_a_new_one() {
    let filler = "fn g() { let a = [1, 2, 3]; a.iter().map(|x| x + 1).sum::<i32>(); }\n".repeat(5);
    let whole = format!("fn f() {{ let a = 1; }}\n{filler}");
    let broken = format!("fn f() {{ let a = @; }}\n{filler}");
    let other = format!("fn f() {{ let a = @; }}\n{filler}fn h() {{}}\n");
    assert_eq!(symbols(Language::Rust, &broken).unwrap().len(), 6);
    assert_eq!(changes(Language::Rust, Some(&whole), &broken), None);
    assert_eq!(render(&changes(Language::Rust, Some(&broken), &other).unwrap()), ["new h"]);
}

#[test]
fn unparsable_macros_do_not_hide_a_c_file() {
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
fn endless_nesting_does_not_crash() {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn arbitrary_text_does_not_crash(which in 0..Language::ALL.len(), before in "(?s).{0,200}", after in "(?s).{0,200}") {
        let language = Language::ALL[which];
        let _ = symbols(language, &before);
        let _ = changes(language, Some(&before), &after);
    }

    #[test]
    fn truncated_files_do_not_crash(which in 0..EXTENSIONS.len(), from in 0_usize..2000, length in 0_usize..2000, junk in "(?s).{0,12}") {
        let (language, before, _) = pair(EXTENSIONS[which]);
        let torn: String = before.chars().skip(from).take(length).chain(junk.chars()).collect();
        for symbol in symbols(language, &torn).unwrap_or_default() {
            prop_assert!(symbol.line_start <= symbol.line_end && !symbol.qualified_name.is_empty());
            prop_assert!(symbol.signature.chars().count() <= 160 && !symbol.signature.contains('\n'));
        }
        let _ = changes(language, Some(&before), &torn);
    }
}
