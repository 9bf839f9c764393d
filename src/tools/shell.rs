//! Splits a shell command line into simple commands: words, files written, texts passed in. Nothing is expanded or run.

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    /// The words, without quotes; the first is the program.
    pub words: Vec<String>,
    /// Files that its output goes to, and whether it is appended.
    pub writes: Vec<(String, bool)>,
    /// The text that it is fed by `<<`.
    pub heredoc: Option<String>,
    /// The operator between the command before it and this one.
    pub join: Join,
    /// True if it was sent to the background by `&`.
    pub background: bool,
}

/// The operator in front of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Join {
    /// `;`, a line end, or nothing.
    #[default]
    Sequence,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
}

/// A command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    /// Its simple commands, in order.
    pub commands: Vec<Simple>,
    /// True for groups, loops, conditions and lines too long to be read whole: their exit status is no evidence for a part.
    pub is_compound: bool,
}

/// Maximum length of a line that is read, in bytes; a longer one is a script.
const MOST_BYTES: usize = 32 * 1024;
/// Maximum number of simple commands that are read.
const MOST_COMMANDS: usize = 64;

/// Words of the shell that begin a compound command.
const COMPOUND: [&str; 9] = ["if", "for", "while", "until", "case", "{", "!", "function", "select"];

/// Parses a command line.
pub fn split(line: &str) -> CommandLine {
    let mut reader = Reader::new(crate::text::head(line, MOST_BYTES));
    reader.run();
    let is_cut = line.len() > MOST_BYTES || reader.at < reader.text.len();
    let begins_compound =
        |simple: &Simple| simple.words.first().is_some_and(|word| COMPOUND.contains(&word.as_str()));
    let is_compound = is_cut || reader.has_group || reader.commands.iter().any(begins_compound);
    CommandLine { commands: reader.commands, is_compound }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    word: Option<String>,
    current: Simple,
    commands: Vec<Simple>,
    /// The role of the next word: an argument, or the target of a redirection.
    target: Target,
    /// The words that end texts which begin after this line.
    pending: Vec<String>,
    has_group: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Argument,
    Write,
    Append,
    Read,
    Heredoc,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            word: None,
            current: Simple::default(),
            commands: Vec::new(),
            target: Target::Argument,
            pending: Vec::new(),
            has_group: false,
        }
    }

    fn run(&mut self) {
        while let Some(char) = self.peek() {
            if self.commands.len() >= MOST_COMMANDS {
                return;
            }
            match char {
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(),
                '\\' => self.escaped(),
                '$' if self.rest().starts_with("$(") => self.substitution(),
                '`' => self.backquoted(),
                '#' if self.word.is_none() => self.comment(),
                ' ' | '\t' => self.step(|reader| reader.end_word()),
                '\n' => self.step(Self::end_line),
                ';' => self.step(|reader| reader.end_command(Join::Sequence)),
                '(' | ')' => {
                    self.has_group = true;
                    self.step(|reader| reader.end_command(Join::Sequence));
                }
                '&' => self.ampersand(),
                '|' => self.pipe(),
                '>' | '<' => self.redirect(char),
                _ => self.take(char),
            }
        }
        self.end_command(Join::Sequence);
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, char: char) {
        self.at += char.len_utf8();
        self.word.get_or_insert_default().push(char);
    }

    fn step(&mut self, then: impl FnOnce(&mut Self)) {
        self.at += 1;
        then(self);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::replace(&mut self.target, Target::Argument) {
            Target::Argument => self.current.words.push(word),
            Target::Write => self.current.writes.push((word, false)),
            Target::Append => self.current.writes.push((word, true)),
            Target::Read => {}
            Target::Heredoc => self.pending.push(word),
        }
    }

    fn end_command(&mut self, next: Join) {
        self.end_word();
        self.target = Target::Argument;
        let done = std::mem::take(&mut self.current);
        if !done.words.is_empty() || !done.writes.is_empty() {
            self.commands.push(done);
        }
        self.current.join = next;
    }

    fn end_line(&mut self) {
        self.end_word();
        for end in std::mem::take(&mut self.pending) {
            let body = self.heredoc_body(&end);
            let open = !self.current.words.is_empty() || !self.current.writes.is_empty();
            let owner = if open { Some(&mut self.current) } else { self.commands.last_mut() };
            if let Some(owner) = owner {
                owner.heredoc = Some(body);
            }
        }
        // A line may end behind an operator; the command goes on in the next one.
        let is_open = self.current.words.is_empty() && self.current.writes.is_empty();
        let next = if is_open { self.current.join } else { Join::Sequence };
        self.end_command(next);
    }

    /// The lines up to the one that is `end`, which is passed.
    fn heredoc_body(&mut self, end: &str) -> String {
        let body = self.rest();
        let mut length = 0;
        for line in body.split_inclusive('\n') {
            if line.trim() == end {
                self.at += length + line.len();
                return body[..length].to_owned();
            }
            length += line.len();
        }
        self.at = self.text.len();
        body.to_owned()
    }

    fn single_quoted(&mut self) {
        let inside = &self.rest()[1..];
        let end = inside.find('\'').unwrap_or(inside.len());
        self.word.get_or_insert_default().push_str(&inside[..end]);
        self.at += 1 + end + usize::from(end < inside.len());
    }

    fn double_quoted(&mut self) {
        self.word.get_or_insert_default();
        self.at += 1;
        while let Some(char) = self.peek() {
            match char {
                '"' => {
                    self.at += 1;
                    return;
                }
                // Only these lose their backslash inside quotes.
                '\\' if self.rest()[1..].starts_with(['"', '\\', '$', '`', '\n']) => self.escaped(),
                '$' if self.rest().starts_with("$(") => self.substitution(),
                _ => self.take(char),
            }
        }
    }

    fn escaped(&mut self) {
        self.at += 1;
        match self.peek() {
            Some('\n') => self.at += 1,
            Some(char) => self.take(char),
            None => {}
        }
    }

    /// `$(…)` as it is, a text passed in by `<<` included.
    fn substitution(&mut self) {
        let mut depth = 0;
        while let Some(char) = self.peek() {
            if self.rest().starts_with("<<") && !self.rest().starts_with("<<<") {
                self.nested_heredoc();
                continue;
            }
            self.take(char);
            match char {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 && char == ')' {
                return;
            }
        }
    }

    fn nested_heredoc(&mut self) {
        let line_end = self.rest().find('\n').map_or(self.rest().len(), |end| end + 1);
        let opening = &self.rest()[..line_end];
        let end: String =
            opening[2..].chars().filter(|char| char.is_alphanumeric() || *char == '_').collect();
        self.at += line_end;
        let body = self.heredoc_body(&end);
        self.word.get_or_insert_default().push_str(&format!("{opening}{body}{end}\n"));
    }

    fn backquoted(&mut self) {
        let end = self.rest()[1..].find('`').map_or(self.rest().len(), |end| end + 2);
        self.word.get_or_insert_default().push_str(&self.text[self.at..self.at + end]);
        self.at += end;
    }

    fn comment(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    fn ampersand(&mut self) {
        if self.rest().starts_with("&>") {
            self.end_word();
            self.at += 1;
            return;
        }
        if self.rest().starts_with("&&") {
            self.at += 2;
            self.end_command(Join::And);
        } else {
            self.at += 1;
            self.end_word();
            self.current.background = true;
            self.end_command(Join::Sequence);
        }
    }

    fn pipe(&mut self) {
        let either = self.rest().starts_with("||");
        self.at += if either || self.rest().starts_with("|&") { 2 } else { 1 };
        self.end_command(if either { Join::Or } else { Join::Pipe });
    }

    fn redirect(&mut self, char: char) {
        // The number before it names a stream, and is no argument.
        if self.word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        let rest = self.rest();
        let (length, target) = match char {
            '<' if rest.starts_with("<<<") => (3, Target::Read),
            '<' if rest.starts_with("<<-") => (3, Target::Heredoc),
            '<' if rest.starts_with("<<") => (2, Target::Heredoc),
            '<' => (1, Target::Read),
            _ if rest.starts_with(">&") => (2, Target::Read),
            _ if rest.starts_with(">>") => (2, Target::Append),
            _ if rest.starts_with(">|") => (2, Target::Write),
            _ => (1, Target::Write),
        };
        self.at += length;
        self.target = target;
        while self.rest().starts_with([' ', '\t']) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).commands.into_iter().map(|simple| simple.words.join("|")).collect()
    }

    #[test]
    fn a_line_is_cut_at_its_operators() {
        assert_eq!(
            words("cd /x && cargo test 2>&1 | tail -5; echo $?"),
            ["cd|/x", "cargo|test", "tail|-5", "echo|$?"]
        );
        assert_eq!(words("(a b) || c & d # not e"), ["a|b", "c", "d"]);
        let joins =
            |line: &str| split(line).commands.into_iter().map(|simple| simple.join).collect::<Vec<_>>();
        use Join::{And, Or, Pipe, Sequence};
        assert_eq!(joins("a | b || c && d; e &&\n f"), [Sequence, Pipe, Or, And, Sequence, And]);
        assert!(split("a & b").commands[0].background && !split("a && b").commands[0].background);
    }

    #[test]
    fn quotes_keep_words_together() {
        assert_eq!(words(r#"git commit -m "a; b" 'c && d' e\ f"#), ["git|commit|-m|a; b|c && d|e f"]);
        assert_eq!(words("echo 'open"), ["echo|open"]);
        assert_eq!(words("echo \"$(date | wc -l)\" `a;b`"), ["echo|$(date | wc -l)|`a;b`"]);
    }

    #[test]
    fn redirections_are_not_words() {
        let all = split("make > out.txt 2> /dev/null < in.txt &> both >> more").commands;
        assert_eq!(words("make > out.txt"), ["make"]);
        let writes: Vec<(&str, bool)> =
            all[0].writes.iter().map(|(path, append)| (path.as_str(), *append)).collect();
        assert_eq!(writes, [("out.txt", false), ("/dev/null", false), ("both", false), ("more", true)]);
    }

    #[test]
    fn texts_passed_in_are_kept_apart() {
        let all = split("cat > a.py <<'EOF'\ndef f(): pass && x\nEOF\npython a.py").commands;
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].writes[0].0.as_str(), all[0].heredoc.as_deref()),
            ("a.py", Some("def f(): pass && x\n"))
        );
        let commit =
            split("git commit -m \"$(cat <<'EOF'\nIt doesn't :( work\nEOF\n)\" && git push").commands;
        assert_eq!((commit.len(), commit[1].words.join(" ")), (2, "git push".to_owned()));
        assert!(commit[0].words[3].contains("It doesn't :( work"));
    }

    #[test]
    fn groups_loops_and_scripts_are_compound() {
        for line in ["(a; b)", "for f in *; do cat $f; done", "if a; then b; fi", "! a", "{ a; }"] {
            assert!(split(line).is_compound, "{line}");
        }
        assert!(split(&"a;".repeat(100)).is_compound && !split("a $(b) && c").is_compound);
    }

    #[test]
    fn nonsense_ends() {
        for text in ["", "'", "\"", "$(", "<<", "a <<EOF", "`", "\\", "&>", "((((", "\n\n;;|"] {
            split(text);
        }
    }
}
