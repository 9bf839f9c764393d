//! The supported languages, and their detection by file name.

/// A language whose functions and types can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Language {
    Rust,
    Python,
    TypeScript,
    Tsx,
    JavaScript,
    Go,
    Java,
    C,
    Cpp,
    Ruby,
    CSharp,
}

impl Language {
    /// All supported languages.
    pub const ALL: [Self; 11] = [
        Self::Rust,
        Self::Python,
        Self::TypeScript,
        Self::Tsx,
        Self::JavaScript,
        Self::Go,
        Self::Java,
        Self::C,
        Self::Cpp,
        Self::Ruby,
        Self::CSharp,
    ];

    /// Returns the language for a notebook's language name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "python" | "python3" | "ipython" => Some(Self::Python),
            "rust" => Some(Self::Rust),
            "typescript" => Some(Self::TypeScript),
            "javascript" => Some(Self::JavaScript),
            "go" => Some(Self::Go),
            "java" => Some(Self::Java),
            "c" => Some(Self::C),
            "c++" | "cpp" => Some(Self::Cpp),
            "ruby" => Some(Self::Ruby),
            "c#" | "csharp" => Some(Self::CSharp),
            _ => None,
        }
    }

    pub(super) fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::Python => tree_sitter_python::LANGUAGE,
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
            Self::JavaScript => tree_sitter_javascript::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
            Self::Java => tree_sitter_java::LANGUAGE,
            Self::C => tree_sitter_c::LANGUAGE,
            Self::Cpp => tree_sitter_cpp::LANGUAGE,
            Self::Ruby => tree_sitter_ruby::LANGUAGE,
            Self::CSharp => tree_sitter_c_sharp::LANGUAGE,
        }
        .into()
    }
}

/// Detects the language of a file by its name alone.
///
/// A header counts as C++, which covers C headers. A notebook counts as Python, which most are;
/// [`file_change`](crate::tools::edit::file_change) reads its metadata.
pub fn language_of(path: &str) -> Option<Language> {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    if matches!(name, "Rakefile" | "Gemfile") {
        return Some(Language::Ruby);
    }
    let (stem, extension) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    match extension.to_ascii_lowercase().as_str() {
        "rs" => Some(Language::Rust),
        "py" | "pyi" | "pyw" | "ipynb" => Some(Language::Python),
        "ts" | "mts" | "cts" => Some(Language::TypeScript),
        "tsx" => Some(Language::Tsx),
        "js" | "mjs" | "cjs" | "jsx" => Some(Language::JavaScript),
        "go" => Some(Language::Go),
        "java" => Some(Language::Java),
        "c" => Some(Language::C),
        "h" | "hh" | "hpp" | "hxx" | "cc" | "cpp" | "cxx" => Some(Language::Cpp),
        "rb" | "rake" | "gemspec" => Some(Language::Ruby),
        "cs" => Some(Language::CSharp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides_whatever_the_folder() {
        for (path, language) in [
            ("src/main.rs", Some(Language::Rust)),
            ("/home/ada/py.project/app.PY", Some(Language::Python)),
            ("types/index.d.ts", Some(Language::TypeScript)),
            ("View.tsx", Some(Language::Tsx)),
            ("lib/a.mjs", Some(Language::JavaScript)),
            ("include\\pool.h", Some(Language::Cpp)),
            ("Rakefile", Some(Language::Ruby)),
            ("notes.ipynb", Some(Language::Python)),
            ("README.md", None),
            ("src.rs/Makefile", None),
            (".rs", None),
            ("", None),
        ] {
            assert_eq!(language_of(path), language, "{path}");
        }
    }

    #[test]
    fn the_parser_supports_every_grammar() {
        for language in Language::ALL {
            assert!(tree_sitter::Parser::new().set_language(&language.grammar()).is_ok(), "{language:?}");
        }
    }
}
